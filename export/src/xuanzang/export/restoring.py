"""From a bundle back to a checkpoint for further training, when only the bundle of a model is left.

8-bit weights become multiples of their scales. Quantising those again gives the same integers.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from google.protobuf import json_format
from google.protobuf.message import DecodeError
from onnx import numpy_helper

from xuanzang.bundle.v1 import manifest_pb2
from xuanzang.export.bundle.folder import DECODER_FILE, ENCODER_FILE
from xuanzang.export.bundle.manifest import defaults_of
from xuanzang.model.data.metadata import (
    METADATA_FILE,
    SOURCE_TOKENIZER_FILE,
    TARGET_TOKENIZER_FILE,
    UNKNOWN_PAIRS,
    PreparedMetadata,
)
from xuanzang.model.network.arrays import parameter_shapes
from xuanzang.model.network.config import TransformerConfig
from xuanzang.model.network.positions import fixed_positions
from xuanzang.model.stored_checkpoint import CheckpointError, write_checkpoint

Array = npt.NDArray[Any]


def restore(bundle: Path, checkpoint: Path) -> None:
    """Write a checkpoint with the weights of a bundle.

    Args:
        bundle: Folder of a bundle of a model that `xuanzang train` made with one vocabulary and pre-norm.
        checkpoint: Folder to write; must not exist.

    Raises:
        CheckpointError: The bundle is damaged or of a model of another kind, or the checkpoint exists.
    """
    if checkpoint.exists():
        raise CheckpointError(f"{checkpoint} exists already")
    manifest = _read_manifest(bundle)
    config = _config(manifest)
    try:
        graphs = [onnx.load(bundle / file) for file in (ENCODER_FILE, DECODER_FILE)]
    except (OSError, ValueError, DecodeError, onnx.checker.ValidationError) as error:
        raise CheckpointError(f"{bundle}: {error}") from error
    constants = {tensor.name: numpy_helper.to_array(tensor) for model in graphs for tensor in model.graph.initializer}
    _require_kind(bundle, config, graphs, constants)
    weights = dict(_weights(config, constants))
    with TemporaryDirectory() as scratch:
        _write_tokenizers(Path(scratch), bundle, manifest, config)
        facts: dict[str, Any] = {
            "step": manifest.provenance.training_steps,
            "bundle": f"{manifest.model}/{manifest.version}",
            "defaults": defaults_of(manifest),
        }
        write_checkpoint(checkpoint, weights, config, Path(scratch), facts)


def _read_manifest(bundle: Path) -> manifest_pb2.Manifest:
    try:
        text = (bundle / "manifest.json").read_text(encoding="utf-8")
        return json_format.Parse(text, manifest_pb2.Manifest(), ignore_unknown_fields=True)
    except (OSError, ValueError, json_format.ParseError) as error:
        raise CheckpointError(f"{bundle} is not a bundle: {error}") from error


def _config(manifest: manifest_pb2.Manifest) -> TransformerConfig:
    sizes = json_format.MessageToDict(manifest.dimensions, preserving_proto_field_name=True)
    sizes["max_positions"] = sizes.pop("max_source_length")
    del sizes["max_target_length"]
    return TransformerConfig(**sizes)


def _require_kind(
    bundle: Path, config: TransformerConfig, graphs: Sequence[onnx.ModelProto], constants: Mapping[str, Array]
) -> None:
    """Raise CheckpointError if the graphs are not those of the model that a configuration describes."""
    nodes = [node for model in graphs for node in model.graph.node]
    nodes += [node for model in graphs for function in model.functions for node in function.node]
    # The graph's output may have more columns, which are never chosen.
    pieces = slice(config.target_vocab_size)
    embedding, output = _embedding(config, constants), _matrix("output_projection", constants)[pieces]
    traits = {
        "one table of embeddings": embedding.shape == output.shape and np.allclose(embedding, output, atol=1e-3),
        "a norm before each block": "encoder_norm.weight" in constants,
        "ReLU": "Relu" in {node.op_type for node in nodes},
        "sinusoidal positions": np.allclose(constants["positional"], fixed_positions(config), atol=1e-3),
        "no bias on its output": not np.any(constants.get("output_projection.bias", np.zeros(1))[pieces]),
        "no ids that are never generated": not constants["banned_ids"].size,
    }
    if missing := [trait for trait, holds in traits.items() if not holds]:
        raise CheckpointError(f"{bundle}: only models of our training can be restored; it has not {', '.join(missing)}")


def _weights(config: TransformerConfig, constants: Mapping[str, Array]) -> Iterator[tuple[str, Array]]:
    """Yield the parameters of a model by name."""
    yield "source_embedding.weight", _embedding(config, constants)
    rows = biases = np.empty(0, np.float32)
    shapes = parameter_shapes(config)
    for name in (name.removesuffix(".weight") for name in shapes if name.endswith(".weight")):
        if name.endswith("norm"):
            for part in ("weight", "bias"):
                yield f"{name}.{part}", constants[f"{name}.{part}"].astype(np.float32)
        elif "layers." in name:
            # Layers with the same input are one product in the graph, named after the first of them.
            if f"{name}.weight" in constants:
                rows, biases = _matrix(name, constants), constants[f"{name}.bias"]
            size = shapes[f"{name}.weight"][0]
            yield f"{name}.weight", rows[:size]
            yield f"{name}.bias", biases[:size].astype(np.float32)
            rows, biases = rows[size:], biases[size:]


def _embedding(config: TransformerConfig, constants: Mapping[str, Array]) -> Array:
    """Return the trained embeddings, [piece, model]: the graph's are scaled, section 3.4."""
    scaled = constants["embedding"].astype(np.float32) * constants.get("embedding.scale", np.float32(1))
    return scaled / np.float32(config.embedding_scale)


def _matrix(name: str, constants: Mapping[str, Array]) -> Array:
    """Return the weights of a product, [out, in]."""
    scale = constants.get(f"{name}.weight_scale", np.float32(1))
    matrix: Array = (constants[f"{name}.weight"].astype(np.float32) * scale).T
    return matrix


def _write_tokenizers(folder: Path, bundle: Path, manifest: manifest_pb2.Manifest, config: TransformerConfig) -> None:
    """Write what a checkpoint takes from prepared data: the tokenisers and their description."""
    shutil.copyfile(bundle / manifest.source_tokenizer, folder / SOURCE_TOKENIZER_FILE)
    shutil.copyfile(bundle / manifest.target_tokenizer, folder / TARGET_TOKENIZER_FILE)
    metadata = PreparedMetadata(
        source_language=manifest.source_language_codes[0],
        target_language=manifest.target_language_codes[0],
        source_normalization=manifest.source_format.normalization,  # type: ignore[arg-type]
        share_vocabulary=True,
        source_vocab_size=config.source_vocab_size,
        target_vocab_size=config.target_vocab_size,
        **UNKNOWN_PAIRS,
    )
    (folder / METADATA_FILE).write_text(metadata.model_dump_json(indent=2) + "\n", encoding="utf-8")
