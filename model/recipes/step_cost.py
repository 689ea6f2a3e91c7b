"""Measure the optimiser steps of a training run: seconds, CPU seconds, target tokens and padding.

Example: step_cost.py data/zh-en optimizer=muon batch_tokens=5000 encoder_layers=12 decoder_layers=2
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from pydantic import ValidationError

from xuanzang.model.data.corpus import CorpusError
from xuanzang.model.data.dataset import epoch_batches
from xuanzang.model.network.config import ConfigError
from xuanzang.model.training.machine import keep_freed_memory
from xuanzang.model.training.settings import TrainingSettings
from xuanzang.model.training.trainer import Trainer, step_batches

WARM_UP = 3
"""Steps before the clock starts."""


class StepCost(NamedTuple):
    """Means over some optimiser steps of one process."""

    seconds: float
    """Time that passed, per step."""
    cpu_seconds: float
    """CPU time of this process, per step: what counts where the cores are shared."""
    target_tokens: float
    """Target tokens per step, eos counted."""
    source_padding: float
    """Share of an epoch's source positions that are padding."""
    target_padding: float
    """Share of an epoch's target positions that are padding."""

    def __str__(self) -> str:
        """Return one line for people."""
        return (
            f"{self.seconds:.3f} s and {self.cpu_seconds:.3f} CPU s a step of {self.target_tokens:.0f} target tokens: "
            f"{self.target_tokens / self.seconds:.0f} a second, {self.target_tokens / self.cpu_seconds:.0f} a CPU "
            f"second; padding {self.source_padding:.1%} of the sources, {self.target_padding:.1%} of the targets"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print.

    Args:
        arguments: Flags, without the program's name; None takes those of the process.

    Returns:
        Exit status: 0, 2 for wrong flags, settings or data.
    """
    flags = _parser().parse_args(arguments)
    if flags.threads:
        torch.set_num_threads(flags.threads)
    keep_freed_memory()
    try:
        print(measure(flags.data, dict(setting.split("=", 1) for setting in flags.settings), flags.steps))
    except (ValidationError, CorpusError, ConfigError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


def measure(data: Path, settings: Mapping[str, Any], steps: int) -> StepCost:
    """Make some steps of a new run and measure them.

    Args:
        data: Folder that `prepare` wrote.
        settings: Fields of `TrainingSettings`.

    Raises:
        ValidationError: A setting does not exist or has a wrong value.
        CorpusError: The folder holds no prepared data.
        ConfigError: Settings and data do not fit.
    """
    with TemporaryDirectory() as output:
        fields = {"validate_sentences": 1} | dict(settings) | {"data": data, "output": output}
        trainer = Trainer(TrainingSettings.model_validate(fields | {"max_steps": WARM_UP + steps}))
        batches = list(
            step_batches(trainer.train_split, trainer.metadata, trainer.settings, trainer.processes, trainer.progress)
        )
        for step in batches[:WARM_UP]:
            trainer.update(step).loss.item()
        seconds, cpu_seconds = time.perf_counter(), time.process_time()
        updates = [trainer.update(step) for step in batches[WARM_UP:]]
        updates[-1].loss.item()  # waits for a GPU
        seconds, cpu_seconds = time.perf_counter() - seconds, time.process_time() - cpu_seconds
    tokens = sum(update.tokens for update in updates)
    epoch = epoch_batches(trainer.train_split, trainer.metadata.weights, trainer.settings.batch_tokens, 0, 0)
    return StepCost(seconds / steps, cpu_seconds / steps, tokens / steps, *padding(trainer.train_split.lengths, epoch))


def padding(lengths: npt.NDArray[np.int64], batches: Sequence[npt.NDArray[np.int64]]) -> tuple[float, float]:
    """Return the share of source and of target positions that are padding.

    Args:
        lengths: Tokens of each pair's source and target, [pair, 2].
        batches: Indices of the pairs of each batch.
    """
    positions = sum(len(batch) * lengths[batch].max(axis=0) for batch in batches)
    real = sum(lengths[batch].sum(axis=0) for batch in batches)
    source, target = 1 - real / positions
    return float(source), float(target)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data", type=Path, help="folder that `prepare` wrote")
    parser.add_argument("settings", nargs="*", metavar="NAME=VALUE", help="settings of the run, with underscores")
    parser.add_argument("--steps", type=int, default=10, help="steps to measure, 10 by default")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads; 0 leaves it to torch")
    return parser


if __name__ == "__main__":
    sys.exit(main())
