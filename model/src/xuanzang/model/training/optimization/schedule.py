"""Learning rates over the steps of a run."""

from __future__ import annotations

from typing import Literal

Schedule = Literal["paper", "inverse_sqrt", "linear", "constant"]

WARMUP_SHARE = 0.1
"""Of the time of a run that ends by the clock, the most that its warm-up takes."""
COOLDOWN_SHARE = 0.3
"""Of that time, the last part, over which the rate falls to 0."""


def learning_rate(
    step: int,
    schedule: Schedule,
    *,
    d_model: int,
    warmup_steps: int,
    peak: float,
    max_steps: int,
    cooldown_steps: int = 0,
) -> float:
    """Return the learning rate of a step.

    Args:
        step: Number of the optimiser step, from 1.
        schedule: "paper": d_model^-0.5 · min(step^-0.5, step · warmup^-1.5), section 5.3, equation 3, without `peak`.
            "inverse_sqrt": the same shape with its peak set freely. "linear": warm-up, then straight to 0 at
            `max_steps`. "constant": warm-up, then the peak, then straight to 0 over the last `cooldown_steps`; the run
            can be prolonged from any step before the cooldown (arXiv 2405.18392).
        warmup_steps: Steps of linear rise, at least 1.
        peak: Rate at the end of the warm-up.
        max_steps: Length of the run.
        cooldown_steps: Steps of linear fall at the end of "constant".
    """
    if schedule == "paper":
        return float(d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5))
    if step <= warmup_steps:
        return peak * step / warmup_steps
    if schedule == "inverse_sqrt":
        return float(peak * (warmup_steps / step) ** 0.5)
    falling = cooldown_steps if schedule == "constant" else max_steps - warmup_steps
    return peak * min(1.0, max(0, max_steps - step) / max(1, falling))


def timed_learning_rate(step: int, time_share: float, *, warmup_steps: int, peak: float) -> float:
    """Return the learning rate of a step of a run that ends by the clock: warm-up, the peak, then straight to 0.

    Args:
        step: Number of the optimiser step, from 1.
        time_share: Share of the time that is used, from 0.
        warmup_steps: Steps of linear rise, which is cut to a tenth of the time.
        peak: Rate at the end of the warm-up.
    """
    risen = max(step / warmup_steps, time_share / WARMUP_SHARE)
    return peak * max(0.0, min(1.0, risen, (1 - time_share) / COOLDOWN_SHARE))
