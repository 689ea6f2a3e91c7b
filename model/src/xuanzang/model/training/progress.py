"""The log of a training run: a progress bar, TensorBoard curves and a JSON file of validations."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from torch import Tensor
from torch.utils.tensorboard import SummaryWriter
from tqdm import tqdm

from xuanzang.model.training.validator import Validation

LOG_STEPS = 10
"""Steps between readings of the loss: reading it makes the CPU wait for a GPU."""


class Update(NamedTuple):
    """One optimiser step."""

    loss: Tensor
    """Smoothed cross-entropy, nats per target token, over all processes; scalar."""
    tokens: int
    """Target tokens, over all processes."""
    learning_rate: float
    """Learning rate of the step."""


class TrainingLog:
    """Writes `tensorboard/` and `validations.jsonl` in the run folder and a bar with tokens/s and ETA on stderr."""

    def __init__(self, folder: Path, max_steps: int | None, start: int, *, enabled: bool) -> None:
        self._enabled, self._folder = enabled, folder
        self._bar = tqdm(
            total=max_steps, initial=start, unit="step", file=sys.stderr, disable=not enabled, smoothing=0.05
        )
        self._writer = SummaryWriter(str(folder / "tensorboard"), purge_step=start) if enabled else None
        self._loss: float | None = None
        self._speed: float | None = None
        self._tokens, self._read_at = 0, time.perf_counter()

    def __enter__(self) -> Self:
        """Return the log itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the bar and the writer."""
        self._bar.close()
        if self._writer:
            self._writer.close()

    def step(self, step: int, update: Update) -> None:
        """Record optimiser step number `step`, from 1."""
        if not self._writer:
            return
        self._bar.update()
        self._tokens += update.tokens
        if step % LOG_STEPS:
            return
        loss = update.loss.item()
        now = time.perf_counter()
        self._loss = _smooth(self._loss, loss)
        self._speed = _smooth(self._speed, self._tokens / (now - self._read_at))
        self._tokens, self._read_at = 0, now
        self._bar.set_postfix_str(f"loss {self._loss:.3f}, {self._speed:,.0f} target tokens/s", refresh=False)
        self._writer.add_scalar("loss/train", loss, step)
        self._writer.add_scalar("learning_rate", update.learning_rate, step)
        self._writer.add_scalar("target_tokens_per_second", self._speed, step)

    def validation(self, step: int, target_tokens: int, validation: Validation) -> None:
        """Record the validation after a step, by when the run has seen some target tokens."""
        if not self._writer:
            return
        loss, (bleu, chrf, *_) = validation.loss, validation.scores
        self._bar.write(f"step {step}: validation loss {loss:.4f}, BLEU {bleu:.2f}, chrF {chrf:.2f}", file=sys.stderr)
        for name, value in (("loss/validation", loss), ("bleu/validation", bleu), ("chrf/validation", chrf)):
            self._writer.add_scalar(name, value, step)
        row = {
            "step": step,
            "loss": round(loss, 5),
            "bleu": round(bleu, 3),
            "chrf": round(chrf, 3),
            "train_loss": self._loss,
            "target_tokens": target_tokens,
            "cpu_seconds": round(time.process_time()),
            "losses": {name: round(loss, 4) for name, loss in validation.losses.items()},
        }
        with (self._folder / "validations.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def _smooth(average: float | None, value: float) -> float:
    return value if average is None else 0.8 * average + 0.2 * value
