"""The batches of each optimiser step."""

from __future__ import annotations

from collections.abc import Iterator

from xuanzang.model.data.dataset import Batch, PreparedSplit, epoch_batches
from xuanzang.model.data.metadata import PreparedMetadata
from xuanzang.model.network.config import ConfigError
from xuanzang.model.training.machine.processes import Processes
from xuanzang.model.training.settings import TrainingSettings
from xuanzang.model.training.state import RunPosition


def step_batches(
    split: PreparedSplit,
    metadata: PreparedMetadata,
    settings: TrainingSettings,
    processes: Processes,
    progress: RunPosition,
) -> Iterator[list[Batch]]:
    """Yield this process's batches of each optimiser step, from the position of the run until its last step.

    Args:
        split: Training pairs.
        metadata: Description of the data.
        progress: Position of the run, updated at every step.

    Raises:
        ConfigError: An epoch has too few batches for one step.
    """
    stride = processes.count * settings.accumulate
    while progress.step < settings.step_limit:
        order = epoch_batches(split, metadata.weights, settings.batch_tokens, settings.seed, progress.epoch)
        if len(order) < stride:
            raise ConfigError(f"an epoch has {len(order)} batches and a step takes {stride}: lower batch_tokens")
        while progress.position + stride <= len(order) and progress.step < settings.step_limit:
            mine = order[progress.position + processes.rank : progress.position + stride : processes.count]
            progress.position += stride
            progress.step += 1
            yield [split.batch(indices) for indices in mine]
        if progress.position + stride > len(order):
            # A remainder too small for a step is left out; the next epoch's shuffle leaves out others.
            progress.epoch, progress.position = progress.epoch + 1, 0
