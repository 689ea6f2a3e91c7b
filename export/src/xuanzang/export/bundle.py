"""The folder that the server loads, written whole or not at all."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx
from google.protobuf import json_format

from xuanzang.bundle.v1 import manifest_pb2
from xuanzang.export import tensors
from xuanzang.export.builder import OPSET
from xuanzang.export.settings import ExportSettings
from xuanzang.export.tensors import TensorSpec
from xuanzang.model.checkpoint import Checkpoint
from xuanzang.model.config import TransformerConfig
from xuanzang.model.data.dataset import (
    SOURCE_TABLE_FILE,
    SOURCE_TOKENIZER_FILE,
    TARGET_TABLE_FILE,
    TARGET_TOKENIZER_FILE,
    PreparedMetadata,
)
from xuanzang.model.folders import replacing

FORMAT = 1
MANIFEST_FILE = "manifest.json"
PRECISIONS = {
    "float32": manifest_pb2.PRECISION_FLOAT32,
    "float16": manifest_pb2.PRECISION_FLOAT16,
    "int8": manifest_pb2.PRECISION_INT8,
}


def next_version(model_folder: Path) -> int:
    """Return one more than the highest version in a model's folder."""
    versions = [int(path.name) for path in model_folder.glob("[0-9]*") if path.name.isdecimal()]
    return max(versions, default=0) + 1


def write_bundle(folder: Path, files: Mapping[str, bytes], manifest: manifest_pb2.Manifest) -> None:
    """Write files and manifest; readers see all of it or nothing.

    Args:
        folder: <repository>/<model>/<version>; replaced if it exists.
        files: Contents by name.
        manifest: Everything but the list of files, which is added here.
    """
    complete = manifest_pb2.Manifest()
    complete.CopyFrom(manifest)
    for name, content in sorted(files.items()):
        complete.files.add(name=name, sha256=hashlib.sha256(content).hexdigest(), size_bytes=len(content))
    text = json_format.MessageToJson(complete, preserving_proto_field_name=True, ensure_ascii=False)
    with replacing(folder) as scratch:
        for name, content in files.items():
            (scratch / name).write_bytes(content)
        (scratch / MANIFEST_FILE).write_text(text + "\n", encoding="utf-8")


def make_manifest(
    checkpoint: Checkpoint, settings: ExportSettings, version: int, tool_versions: Mapping[str, str]
) -> manifest_pb2.Manifest:
    """Describe a bundle, except for its files."""
    config, metadata = checkpoint.model.config, checkpoint.metadata
    floats = tensors.floats_of(settings.precision)
    manifest = manifest_pb2.Manifest(
        format=FORMAT,
        model=settings.model,
        version=version,
        source_language_codes=[metadata.source_language, *metadata.other_source_languages],
        target_language_codes=target_languages(metadata),
        dimensions=_dimensions(config),
        special_ids=manifest_pb2.SpecialIds(
            source_pad_id=config.pad_id,
            source_eos_id=config.eos_id,
            decoder_start_id=config.bos_id,
            eos_id=config.eos_id,
            source_unk_id=config.unk_id,
            unk_id=config.unk_id,
        ),
        precision=PRECISIONS[settings.precision],
        encoder=_graph("encoder.onnx", tensors.encoder_inputs(config, floats), tensors.encoder_outputs(config, floats)),
        decoder=_graph("decoder.onnx", tensors.decoder_inputs(config, floats), tensors.decoder_outputs(config, floats)),
        source_tokenizer=SOURCE_TOKENIZER_FILE,
        target_tokenizer=SOURCE_TOKENIZER_FILE if metadata.share_vocabulary else TARGET_TOKENIZER_FILE,
        generation_defaults=manifest_pb2.GenerationDefaults(
            beam_size=settings.beam_size,
            length_penalty=settings.length_penalty,
            max_length_factor=2.0,
            max_length_offset=20,
            loop_retry_ngram_size=settings.loop_retry_ngram_size,
        ),
        provenance=manifest_pb2.Provenance(
            git_commit=_git_commit(),
            data_sha256=metadata.data_sha256,
            training_steps=checkpoint.training.get("step", 0),
            tool_versions=tool_versions,
        ),
        source_format=manifest_pb2.SourceFormat(
            normalization=metadata.source_normalization, language_prefix_ids=metadata.language_prefix_ids
        ),
    )
    manifest.source_vocabulary, manifest.target_vocabulary = _table_files(checkpoint.folder)
    if settings.shortlist:
        manifest.shortlist.CopyFrom(_shortlist(config, settings.precision))
    manifest.provenance.create_time.GetCurrentTime()
    return manifest


def serialize(model: onnx.ModelProto) -> bytes:
    """Return the bytes of a graph, the same for the same graph."""
    return model.SerializeToString(deterministic=True)


def target_languages(metadata: PreparedMetadata) -> list[str]:
    """Return what can be translated into, first what the model was measured with."""
    return list(dict.fromkeys([metadata.target_language, *metadata.language_prefix_ids]))


def _table_files(folder: Path) -> tuple[str, str]:
    """Return the names of the tables of source and target ids; empty where SentencePiece's own ids hold."""
    source, target = folder / SOURCE_TABLE_FILE, folder / TARGET_TABLE_FILE
    if not source.is_file():
        return "", ""
    return source.name, source.name if source.read_bytes() == target.read_bytes() else target.name


def _dimensions(config: TransformerConfig) -> manifest_pb2.Dimensions:
    return manifest_pb2.Dimensions(
        d_model=config.d_model,
        num_heads=config.num_heads,
        d_ff=config.d_ff,
        num_encoder_layers=config.num_encoder_layers,
        num_decoder_layers=config.num_decoder_layers,
        source_vocab_size=config.source_vocab_size,
        target_vocab_size=config.target_vocab_size,
        max_source_length=config.max_positions,
        max_target_length=config.max_positions,
    )


def _shortlist(config: TransformerConfig, precision: str) -> manifest_pb2.Shortlist:
    floats = tensors.floats_of(precision)
    return manifest_pb2.Shortlist(
        suggestions=_graph("suggestions.onnx", tensors.suggestions_inputs(), tensors.suggestions_outputs(config)),
        decoder=_graph(
            "decoder.shortlist.onnx",
            tensors.shortlist_decoder_inputs(config, floats),
            tensors.decoder_outputs(config, floats),
        ),
    )


def _graph(file: str, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> manifest_pb2.Graph:
    return manifest_pb2.Graph(
        file=file, inputs=[_tensor(spec) for spec in inputs], outputs=[_tensor(spec) for spec in outputs], opset=OPSET
    )


def _tensor(spec: TensorSpec) -> manifest_pb2.Tensor:
    return manifest_pb2.Tensor(name=spec.name, dtype=spec.dtype, shape=[str(size) for size in spec.shape])


def _git_commit() -> str:
    """Return the commit of the working tree, or "unknown" outside one."""
    try:
        command = ["git", "rev-parse", "HEAD"]
        result = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - a fixed command
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return result.stdout.strip()
