"""The state from which an interrupted run resumes."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from xuanzang.model.checkpoint import CheckpointError, load_weights, read_tensors, save_weights
from xuanzang.model.folders import replacing, settled
from xuanzang.model.training.averaging import WeightAverage
from xuanzang.model.training.optimizers import Optimizers

STATE_FILE = "state.json"
MODEL_FILE = "model.safetensors"
AVERAGE_FILE = "average.safetensors"
OPTIMIZER_FILE = "optimizer.safetensors"


@dataclasses.dataclass(slots=True, kw_only=True)
class RunPosition:
    """Position of a run."""

    step: int = 0
    """Optimiser steps made."""
    epoch: int = 0
    """Epoch that the next batch is of, from 0."""
    position: int = 0
    """Batches of the epoch that were used."""
    target_tokens: int = 0
    """Target tokens trained on, eos counted."""
    stale_validations: int = 0
    """Validations since the best one."""
    best_loss: float = float("inf")
    """Lowest validation loss, nats per token."""


@dataclasses.dataclass(slots=True, kw_only=True)
class TrainingState:
    """Everything that changes from step to step."""

    model: nn.Module
    average: WeightAverage
    optimizers: Optimizers
    progress: RunPosition

    def save(self, folder: Path, data_sha256: str) -> None:
        """Write everything that an exact resume needs, or nothing.

        Args:
            folder: Folder to write or replace.
            data_sha256: Digest of the training data.
        """
        with replacing(folder) as scratch:
            save_weights(scratch / MODEL_FILE, dict(self.model.named_parameters()))
            save_weights(scratch / AVERAGE_FILE, self.average.weights)
            save_weights(scratch / OPTIMIZER_FILE, self.optimizers.state())
            state = dataclasses.asdict(self.progress) | {"data_sha256": data_sha256}
            (scratch / STATE_FILE).write_text(json.dumps(state, indent=2) + "\n")

    def resume(self, folder: Path, data_sha256: str) -> bool:
        """Restore a saved state.

        Args:
            folder: Folder that `save` wrote; may not exist yet.
            data_sha256: Digest of the training data.

        Returns:
            Whether there was a saved state.

        Raises:
            CheckpointError: The state is damaged, or of another shape or other data.
        """
        folder = settled(folder)
        if not folder.exists():
            return False
        self.progress = _read_progress(folder / STATE_FILE, data_sha256)
        load_weights(self.model, folder / MODEL_FILE)
        self._fill(self.average.weights, folder / AVERAGE_FILE)
        moments = self.optimizers.state(empty=True)
        self._fill(moments, folder / OPTIMIZER_FILE)
        self.optimizers.restore(moments)
        return True

    @staticmethod
    def _fill(tensors: dict[str, Tensor], path: Path) -> None:
        read = read_tensors(path, {name: tensor.shape for name, tensor in tensors.items()})
        for name, tensor in tensors.items():
            tensor.copy_(read[name])


def _read_progress(path: Path, data_sha256: str) -> RunPosition:
    try:
        state: dict[str, Any] = json.loads(path.read_text())
        if state.pop("data_sha256", data_sha256) != data_sha256:
            raise CheckpointError(f"{path}: this run was trained on other data; give the new run another output folder")
        return RunPosition(**state)
    except (OSError, TypeError, json.JSONDecodeError) as error:
        raise CheckpointError(f"{path}: {error}") from error
