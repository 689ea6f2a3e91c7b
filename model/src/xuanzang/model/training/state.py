"""What an interrupted run resumes from."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from xuanzang.model.checkpoint import CheckpointError, load_weights, read_tensors, save_weights
from xuanzang.model.folders import replacing, settled
from xuanzang.model.training.averaging import WeightAverage

STATE_FILE = "state.json"
MODEL_FILE = "model.safetensors"
AVERAGE_FILE = "average.safetensors"
OPTIMIZER_FILE = "optimizer.safetensors"

_MOMENTS = ("step", "exp_avg", "exp_avg_sq")


@dataclasses.dataclass(slots=True, kw_only=True)
class Progress:
    """Where a run stands."""

    step: int = 0
    """Optimiser steps made."""
    epoch: int = 0
    """Epoch that the next batch is of, from 0."""
    position: int = 0
    """Batches of the epoch that were used."""
    stale_validations: int = 0
    """Validations since the best one."""
    best_loss: float = float("inf")
    """Least validation loss, nats per token."""


@dataclasses.dataclass(slots=True, kw_only=True)
class TrainingState:
    """Everything that changes from step to step."""

    model: nn.Module
    average: WeightAverage
    optimizer: torch.optim.Optimizer
    progress: Progress

    def save(self, folder: Path, data_sha256: str) -> None:
        """Write everything that an exact resume needs, or nothing.

        Args:
            folder: To write or replace.
            data_sha256: Digest of what the run trains on.
        """
        with replacing(folder) as scratch:
            save_weights(scratch / MODEL_FILE, dict(self.model.named_parameters()))
            save_weights(scratch / AVERAGE_FILE, self.average.weights)
            save_weights(scratch / OPTIMIZER_FILE, self._moments())
            state = dataclasses.asdict(self.progress) | {"data_sha256": data_sha256}
            (scratch / STATE_FILE).write_text(json.dumps(state, indent=2) + "\n")

    def resume(self, folder: Path, data_sha256: str) -> bool:
        """Take up what `save` wrote.

        Args:
            folder: That `save` wrote; may not exist yet.
            data_sha256: Digest of what the run trains on.

        Returns:
            Whether there was anything.

        Raises:
            CheckpointError: It is damaged, or of another shape or other data.
        """
        folder = settled(folder)
        if not folder.exists():
            return False
        self.progress = _read_progress(folder / STATE_FILE, data_sha256)
        load_weights(self.model, folder / MODEL_FILE)
        self._fill(self.average.weights, folder / AVERAGE_FILE)
        moments = self._moments(empty=True)
        self._fill(moments, folder / OPTIMIZER_FILE)
        for name, parameter in self.model.named_parameters():
            self.optimizer.state[parameter] = {key: moments[f"{name}.{key}"] for key in _MOMENTS}
        return True

    def _moments(self, *, empty: bool = False) -> dict[str, Tensor]:
        """Return Adam's step and moments by parameter name; `empty` ones before its first step."""
        moments: dict[str, Tensor] = {}
        for name, parameter in self.model.named_parameters():
            state = _empty_moments(parameter) if empty else self.optimizer.state[parameter]
            moments |= {f"{name}.{key}": state[key] for key in _MOMENTS}
        return moments

    @staticmethod
    def _fill(tensors: dict[str, Tensor], path: Path) -> None:
        read = read_tensors(path, {name: tensor.shape for name, tensor in tensors.items()})
        for name, tensor in tensors.items():
            tensor.copy_(read[name])


def _empty_moments(parameter: Tensor) -> dict[str, Tensor]:
    # The fused Adam keeps its step beside the parameter, in float32.
    step = torch.zeros((), device=parameter.device)
    return {"step": step, "exp_avg": torch.empty_like(parameter), "exp_avg_sq": torch.empty_like(parameter)}


def _read_progress(path: Path, data_sha256: str) -> Progress:
    try:
        state: dict[str, Any] = json.loads(path.read_text())
        if state.pop("data_sha256", data_sha256) != data_sha256:
            raise CheckpointError(f"{path}: this run was trained on other data; give the new run another output folder")
        return Progress(**state)
    except (OSError, TypeError, json.JSONDecodeError) as error:
        raise CheckpointError(f"{path}: {error}") from error
