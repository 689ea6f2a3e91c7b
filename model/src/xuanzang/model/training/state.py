"""Saved state of a run, and the settings that a continuation may change."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from xuanzang.command.folders import replacing, settled
from xuanzang.model.checkpoint import load_weights, non_finite, read_tensors, save_weights
from xuanzang.model.stored_checkpoint import CheckpointError
from xuanzang.model.training.optimizers import Optimizers, WeightAverage
from xuanzang.model.training.settings import TrainingSettings

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
    seconds: float = 0.0
    """Time that the steps took."""
    stale_validations: int = 0
    """Validations since the best one."""
    best_loss: float = float("inf")
    """Lowest validation loss, nats per token."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SavedRun:
    """Description of a run that was saved; what an older version did not write is None."""

    data_sha256: str | None = None
    """Digest of the training data."""
    settings: dict[str, Any] | None = None
    """Settings of the run, as `resuming.lasting_settings` returns them."""
    threads: int | None = None
    """CPU threads of each process; the last bits of the results depend on them."""


@dataclasses.dataclass(slots=True, kw_only=True)
class TrainingState:
    """Everything that changes from step to step."""

    model: nn.Module
    average: WeightAverage
    optimizers: Optimizers
    progress: RunPosition

    def save(self, folder: Path, run: SavedRun) -> None:
        """Write everything that an exact resume needs, or nothing.

        Args:
            folder: Folder to write or replace.

        Raises:
            CheckpointError: A value is infinite or not a number.
        """
        with replacing(folder, marker=STATE_FILE) as scratch:
            for name, tensors in self._files().items():
                save_weights(scratch / name, tensors)
            state = dataclasses.asdict(self.progress) | dataclasses.asdict(run)
            (scratch / STATE_FILE).write_text(json.dumps(state, indent=2) + "\n")

    def is_finite(self) -> bool:
        """Return whether all values of the weights, their average and the optimisers are finite numbers."""
        return not any(non_finite(tensors) for tensors in self._files().values())

    def _files(self) -> dict[str, dict[str, Tensor]]:
        return {
            MODEL_FILE: dict(self.model.named_parameters()),
            AVERAGE_FILE: self.average.weights,
            OPTIMIZER_FILE: self.optimizers.state(),
        }

    def restore(self, folder: Path) -> None:
        """Restore a saved state.

        Args:
            folder: Folder that `save` wrote.

        Raises:
            CheckpointError: The state is damaged, of another shape or not finite.
        """
        folder = settled(folder)
        values = {"seconds": 0.0} | _read_state(folder)  # older runs did not count them
        try:
            self.progress = RunPosition(**{name: values[name] for name in _names(RunPosition)})
        except KeyError as error:
            raise CheckpointError(f"{folder / STATE_FILE}: {error} is missing") from error
        load_weights(self.model, folder / MODEL_FILE)
        self._fill(self.average.weights, folder / AVERAGE_FILE)
        moments = self.optimizers.state(empty=True)
        self._fill(moments, folder / OPTIMIZER_FILE)
        self.optimizers.restore(moments)

    @staticmethod
    def _fill(tensors: dict[str, Tensor], path: Path) -> None:
        read = read_tensors(path, {name: tensor.shape for name, tensor in tensors.items()})
        for name, tensor in tensors.items():
            tensor.copy_(read[name])


def read_saved_run(folder: Path) -> SavedRun | None:
    """Return the description of a saved run; None if there is none yet.

    Args:
        folder: Folder that `TrainingState.save` wrote; may not exist yet.

    Raises:
        CheckpointError: The description is damaged.
    """
    folder = settled(folder)
    if not folder.exists():
        return None
    values = _read_state(folder)
    return SavedRun(**{name: values[name] for name in _names(SavedRun) if name in values})


def _read_state(folder: Path) -> dict[str, Any]:
    try:
        return dict(json.loads((folder / STATE_FILE).read_text()))
    except (OSError, TypeError, ValueError) as error:
        raise CheckpointError(f"{folder / STATE_FILE}: {error}") from error


def _names(kind: type[RunPosition | SavedRun]) -> list[str]:
    return [field.name for field in dataclasses.fields(kind)]


_SHAPE = ("preset", "encoder_layers", "decoder_layers", "norm", "positions", "optimizer")
"""Settings that decide the shapes of the saved tensors."""

# They locate or observe a run, but change no weight.
_FREE = {
    "data",
    "output",
    "init_from",
    "device",
    "compile",
    "validate_every",
    "validate_sentences",
    "save_every",
    "patience",
}


def lasting_settings(settings: TrainingSettings) -> dict[str, Any]:
    """Return the settings that affect the weights of a run, as in JSON."""
    return settings.model_dump(mode="json", exclude=_FREE)


def changed_settings(settings: TrainingSettings, run: SavedRun, data_sha256: str) -> str:
    """Compare the settings of a command with those of the run that it goes on with.

    Args:
        settings: Settings of the command; given ones count as intended.
        data_sha256: Digest of the command's training data.

    Returns:
        The changes that were given, such as "batch_tokens 4096 → 8192"; empty if there are none.

    Raises:
        CheckpointError: The data or the shape of the model differ, or a setting differs and was not given.
    """
    if run.data_sha256 not in {None, data_sha256}:
        raise CheckpointError(_elsewhere(settings.output, "was trained on other data"))
    saved = run.settings or {}
    changes = {
        name: f"{name} {_shown(saved[name])} → {_shown(value)}"
        for name, value in lasting_settings(settings).items()
        if name in saved and saved[name] != value
    }
    if shape := [change for name, change in changes.items() if name in _SHAPE]:
        raise CheckpointError(_elsewhere(settings.output, f"is of another shape ({', '.join(shape)})"))
    if forgotten := {name: changes[name] for name in changes if name not in settings.model_fields_set}:
        flags = " ".join(f"--{name.replace('_', '-')}" for name in forgotten)
        raise CheckpointError(
            f"{settings.output}: this run has other settings ({', '.join(forgotten.values())}): "
            f"repeat its command, or give {flags} to change them"
        )
    return ", ".join(changes.values())


def _elsewhere(output: Path, difference: str) -> str:
    return f"{output}: this run {difference}; give the new run another output folder"


def _shown(value: object) -> str:
    return "unset" if value is None else str(value)
