"""Learning rates over the steps of a run."""

from __future__ import annotations

from typing import Literal

Schedule = Literal["paper", "inverse_sqrt", "linear"]


def learning_rate(
    step: int, schedule: Schedule, *, d_model: int, warmup_steps: int, peak: float, max_steps: int
) -> float:
    """Return the learning rate of a step.

    Args:
        step: From 1.
        schedule: "paper": d_model^-0.5 · min(step^-0.5, step · warmup^-1.5), section 5.3, equation 3, without `peak`.
            "inverse_sqrt": the same shape with its peak set freely. "linear": warm-up, then straight to 0 at
            `max_steps`.
        d_model: Width of the model.
        warmup_steps: Steps of linear rise, at least 1.
        peak: Rate at the end of the warm-up.
        max_steps: Length of the run.
    """
    if schedule == "paper":
        return float(d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5))
    if step <= warmup_steps:
        return peak * step / warmup_steps
    if schedule == "inverse_sqrt":
        return float(peak * (warmup_steps / step) ** 0.5)
    return peak * max(0.0, max_steps - step) / max(1, max_steps - warmup_steps)
