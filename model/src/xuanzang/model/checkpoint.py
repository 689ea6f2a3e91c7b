"""Trained models on disk: safetensors and JSON, never pickle."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from xuanzang.model.config import ConfigError, TransformerConfig
from xuanzang.model.data import METADATA_FILE, SOURCE_TOKENIZER_FILE, TARGET_TOKENIZER_FILE, PreparedMetadata
from xuanzang.model.tokenizer import Tokenizer
from xuanzang.model.transformer import Transformer

WEIGHTS_FILE = "model.safetensors"
CONFIG_FILE = "config.json"
TRAINING_FILE = "training.json"


class CheckpointError(ValueError):
    """A checkpoint that cannot be loaded; the message says which file and why."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A model with all that is needed to use it."""

    model: Transformer
    """In evaluation mode, float32."""
    source_tokenizer: Tokenizer
    """Text to source ids."""
    target_tokenizer: Tokenizer
    """Target ids to text."""
    metadata: PreparedMetadata
    """What the model was trained on."""
    training: dict[str, Any]
    """Facts of the run, such as "step" and "git_commit"."""
    folder: Path
    """Where it was read from."""


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """Yield an empty folder that takes the place of `folder` when the block ends well, and vanishes when it does not."""
    scratch, old = folder.with_name(f".{folder.name}.partial"), folder.with_name(f".{folder.name}.old")
    recover(folder)
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    try:
        yield scratch
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    if folder.exists():
        folder.rename(old)
    scratch.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def recover(folder: Path) -> None:
    """Undo a replacement that was cut off between its two renames."""
    old = folder.with_name(f".{folder.name}.old")
    if old.exists() and not folder.exists():
        old.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def save_weights(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors; of those that share memory, such as tied embeddings, only the first."""
    unique = {tensor.data_ptr(): name for name, tensor in reversed(list(tensors.items()))}
    kept = set(unique.values())
    save_file({name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items() if name in kept}, path)


def load_weights(model: Transformer, path: Path) -> None:
    """Fill a model from a file of any float type.

    Raises:
        CheckpointError: The file is damaged, or has missing, unexpected or misshapen tensors; all are listed.
    """
    try:
        tensors = load_file(path)
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path}: {error}") from error
    parameters = dict(model.named_parameters())
    faults = [f"missing {name}" for name in parameters.keys() - tensors.keys()]
    faults += [f"unexpected {name}" for name in tensors.keys() - parameters.keys()]
    faults += [
        f"{name} has shape {list(tensors[name].shape)}, expected {list(parameters[name].shape)}"
        for name in parameters.keys() & tensors.keys()
        if parameters[name].shape != tensors[name].shape
    ]
    if faults:
        raise CheckpointError(f"{path}: " + "; ".join(sorted(faults)))
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(tensors[name])


def save_checkpoint(
    folder: Path,
    weights: Mapping[str, Tensor],
    config: TransformerConfig,
    tokenizer_folder: Path,
    training: Mapping[str, Any],
) -> None:
    """Write a checkpoint; a reader sees the old one or the new one, never half of one.

    Args:
        folder: To write or replace.
        weights: By parameter name.
        config: Of the model.
        tokenizer_folder: Where the tokenisers and metadata.json lie, a folder that `prepare` wrote or another checkpoint.
        training: Facts of the run.
    """
    with replacing(folder) as scratch:
        save_weights(scratch / WEIGHTS_FILE, weights)
        _write_json(scratch / CONFIG_FILE, dataclasses.asdict(config))
        _write_json(scratch / TRAINING_FILE, training)
        for name in (METADATA_FILE, SOURCE_TOKENIZER_FILE, TARGET_TOKENIZER_FILE):
            shutil.copyfile(tokenizer_folder / name, scratch / name)


def load_checkpoint(folder: Path) -> Checkpoint:
    """Read a checkpoint.

    Raises:
        CheckpointError: Anything is missing, damaged or does not fit.
    """
    recover(folder)
    try:
        config = TransformerConfig(**json.loads((folder / CONFIG_FILE).read_text()))
        metadata = PreparedMetadata.model_validate_json((folder / METADATA_FILE).read_text())
        training = json.loads((folder / TRAINING_FILE).read_text())
        tokenizers = [Tokenizer(folder / name) for name in (SOURCE_TOKENIZER_FILE, TARGET_TOKENIZER_FILE)]
    except (OSError, ValueError, TypeError, ConfigError) as error:
        raise CheckpointError(f"{folder}: {error}") from error
    model = Transformer(config)
    load_weights(model, folder / WEIGHTS_FILE)
    return Checkpoint(
        model=model.eval(),
        source_tokenizer=tokenizers[0],
        target_tokenizer=tokenizers[1],
        metadata=metadata,
        training=training,
        folder=folder,
    )


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
