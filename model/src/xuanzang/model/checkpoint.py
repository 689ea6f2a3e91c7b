"""Checkpoints in torch: to train, and to translate without a bundle."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from xuanzang.command.folders import settled, with_usual_mode
from xuanzang.model.data.metadata import SOURCE_TOKENIZER_FILE, TARGET_TOKENIZER_FILE
from xuanzang.model.network.arrays import ArrayNetwork
from xuanzang.model.network.config import TransformerConfig
from xuanzang.model.network.positions import FloatArray
from xuanzang.model.network.transformer import PositionalEncoding, Transformer
from xuanzang.model.stored_checkpoint import (
    WEIGHTS_FILE,
    CheckpointError,
    StoredCheckpoint,
    read_checkpoint,
    require_finite,
    require_shapes,
    write_files,
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint(StoredCheckpoint):
    """A checkpoint with its model in torch."""

    model: Transformer
    """In evaluation mode, float32."""


def save_weights(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors by name; no two may share memory, as those of `named_parameters` never do.

    Raises:
        CheckpointError: A value is infinite or not a number; nothing is written.
    """
    require_finite(path, non_finite(tensors))
    values = {name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}
    with_usual_mode(path, lambda file: save_file(values, file))


def read_tensors(path: Path, shapes: Mapping[str, torch.Size]) -> dict[str, Tensor]:
    """Read a file that must hold exactly the tensors asked for, in any float type.

    Args:
        shapes: Expected shapes by tensor name.

    Returns:
        Tensors by name, on the CPU.

    Raises:
        CheckpointError: The file is damaged, has missing, unexpected or misshapen tensors, or values that are infinite
            or not a number; some tensors are named.
    """
    try:
        tensors = load_file(path)
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path}: {error}") from error
    require_shapes(path, {name: tensor.shape for name, tensor in tensors.items()}, shapes)
    require_finite(path, non_finite(tensors))
    return tensors


def non_finite(tensors: Mapping[str, Tensor]) -> list[str]:
    """Return the names of the tensors with a value that is infinite or not a number."""
    return [name for name, tensor in tensors.items() if not torch.isfinite(tensor).all()]


@torch.no_grad()
def load_weights(model: nn.Module, path: Path) -> None:
    """Fill a model from a file of any float type.

    Raises:
        CheckpointError: The file is damaged or of another shape; see `read_tensors`.
    """
    parameters = dict(model.named_parameters())
    tensors = read_tensors(path, {name: parameter.shape for name, parameter in parameters.items()})
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
        folder: Folder to write or replace.
        tokenizer_folder: Folder of the tokenisers and metadata.json: prepared data, or a checkpoint.

    Raises:
        CheckpointError: A weight is infinite or not a number; the old checkpoint stays.
    """
    write_files(folder, lambda path: save_weights(path, weights), config, tokenizer_folder, training)


def load_checkpoint(folder: Path) -> Checkpoint:
    """Read a checkpoint.

    Raises:
        CheckpointError: Anything is missing, damaged or does not fit.
    """
    stored = read_checkpoint(folder)
    fields = {field.name: getattr(stored, field.name) for field in dataclasses.fields(stored)}
    return Checkpoint(**fields, model=_model_of(stored.config, stored.weights.arrays))


def _model_of(config: TransformerConfig, arrays: Mapping[str, FloatArray]) -> Transformer:
    """Return a model whose parameters are the given arrays, in the same memory."""
    with torch.device("meta"):  # neither memory nor random numbers
        model = Transformer(config)
    found = {
        id(parameter): nn.Parameter(torch.from_numpy(arrays[name])) for name, parameter in model.named_parameters()
    }
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            setattr(module, name, found[id(parameter)])
    if config.positions != "learned":
        model.source_positions, model.target_positions = PositionalEncoding(config), PositionalEncoding(config)
    return model.eval()


def start_from(model: Transformer, folder: Path, tokenizer_folder: Path) -> None:
    """Fill a model with the weights of a checkpoint, for further training.

    Args:
        model: Model of the same shape.
        tokenizer_folder: Folder of the tokenisers of the new training data.

    Raises:
        CheckpointError: Shape or tokenisers differ.
    """
    folder = settled(folder)
    load_weights(model, folder / WEIGHTS_FILE)
    for name in (SOURCE_TOKENIZER_FILE, TARGET_TOKENIZER_FILE):
        if (folder / name).read_bytes() != (tokenizer_folder / name).read_bytes():
            raise CheckpointError(f"{folder / name} is not the tokeniser of {tokenizer_folder}")


def network_of(model: Transformer) -> ArrayNetwork:
    """Return a model over numpy arrays, in the same memory if that is the CPU's, as an export takes it."""
    parameters = model.named_parameters()
    return ArrayNetwork(model.config, {name: parameter.detach().cpu().numpy() for name, parameter in parameters})
