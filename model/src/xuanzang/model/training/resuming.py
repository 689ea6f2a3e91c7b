"""The settings of a run against those of the command that goes on with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from xuanzang.model.checkpoint import CheckpointError
from xuanzang.model.training.settings import TrainingSettings
from xuanzang.model.training.state import SavedRun

_SHAPE = ("preset", "encoder_layers", "decoder_layers", "norm", "positions", "optimizer")
"""Settings on which the shapes of the saved tensors depend."""

# They say where a run is, or what is looked at and when, but change no weight.
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
    """Return the settings on which the weights of a run depend, as JSON has them."""
    return settings.model_dump(mode="json", exclude=_FREE)


def changed_settings(settings: TrainingSettings, run: SavedRun, data_sha256: str) -> str:
    """Compare the settings of a command with those of the run that it goes on with.

    Args:
        settings: Settings of the command; those that were given count as intended.
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
