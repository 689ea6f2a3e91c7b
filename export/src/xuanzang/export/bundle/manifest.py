"""The manifest of a bundle, made from the checkpoint and the settings of the export."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xuanzang.bundle.v1 import manifest_pb2
from xuanzang.export import tensors
from xuanzang.export.bundle.folder import (
    DECODER_FILE,
    ENCODER_FILE,
    SHORTLIST_DECODER_FILE,
    SUGGESTIONS_FILE,
    WEIGHTS_FILE,
)
from xuanzang.export.bundle.interface import FORMAT, PRECISIONS, git_commit, graph_of
from xuanzang.export.settings import ExportSettings
from xuanzang.model.data.metadata import (
    SOURCE_TABLE_FILE,
    SOURCE_TOKENIZER_FILE,
    TARGET_TABLE_FILE,
    TARGET_TOKENIZER_FILE,
    PreparedMetadata,
)
from xuanzang.model.network.config import TransformerConfig
from xuanzang.model.stored_checkpoint import StoredCheckpoint

STOPPINGS = {
    "first-finished": manifest_pb2.STOPPING_UNSPECIFIED,
    "none-better": manifest_pb2.STOPPING_NONE_BETTER,
}


def make_manifest(
    checkpoint: StoredCheckpoint, settings: ExportSettings, version: int, tool_versions: Mapping[str, str]
) -> manifest_pb2.Manifest:
    """Return the manifest, except its list of files.

    Args:
        checkpoint: Exported model.
        tool_versions: Versions of the tools, by name.
    """
    config, metadata = checkpoint.config, checkpoint.metadata
    floats = tensors.floats_of(settings.precision)
    manifest = manifest_pb2.Manifest(
        format=FORMAT,
        model=settings.model,
        version=version,
        source_language_codes=metadata.source_languages,
        target_language_codes=metadata.target_languages,
        dimensions=_dimensions(config),
        special_ids=_special_ids(config),
        precision=PRECISIONS[settings.precision],
        encoder=graph_of(ENCODER_FILE, tensors.encoder_inputs(config, floats), tensors.encoder_outputs(config, floats)),
        decoder=graph_of(DECODER_FILE, tensors.decoder_inputs(config, floats), tensors.decoder_outputs(config, floats)),
        weights=WEIGHTS_FILE,
        source_tokenizer=SOURCE_TOKENIZER_FILE,
        target_tokenizer=SOURCE_TOKENIZER_FILE if metadata.share_vocabulary else TARGET_TOKENIZER_FILE,
        generation_defaults=_generation_defaults(settings, metadata),
        provenance=_provenance(checkpoint, tool_versions),
        source_format=_source_format(metadata),
        target_format=_target_format(metadata),
    )
    manifest.source_vocabulary, manifest.target_vocabulary = _table_files(checkpoint.folder)
    if settings.shortlist:
        manifest.shortlist.CopyFrom(_shortlist(config, settings.precision))
    return manifest


def _provenance(checkpoint: StoredCheckpoint, tool_versions: Mapping[str, str]) -> manifest_pb2.Provenance:
    provenance = manifest_pb2.Provenance(
        git_commit=git_commit(),
        data_sha256=checkpoint.metadata.data_sha256,
        training_steps=checkpoint.training.get("step", 0),
        tool_versions=tool_versions,
    )
    provenance.create_time.GetCurrentTime()
    # A model that is trained further keeps the licence of its origin.
    if imported := checkpoint.training.get("imported") or checkpoint.training.get("parent"):
        provenance.source.CopyFrom(
            manifest_pb2.Source(
                name=imported["name"],
                licence=imported["licence"],
                revision=imported.get("revision", ""),
                file_sha256=imported.get("files", {}),
            )
        )
    return provenance


def _special_ids(config: TransformerConfig) -> manifest_pb2.SpecialIds:
    return manifest_pb2.SpecialIds(
        source_pad_id=config.pad_id,
        source_eos_id=config.eos_id,
        decoder_start_id=config.bos_id,
        eos_id=config.eos_id,
        source_unk_id=config.unk_id,
        unk_id=config.unk_id,
    )


def _generation_defaults(settings: ExportSettings, metadata: PreparedMetadata) -> manifest_pb2.GenerationDefaults:
    return manifest_pb2.GenerationDefaults(
        beam_size=settings.beam_size,
        length_penalty=settings.length_penalty,
        max_length_factor=2.0,
        max_length_offset=20,
        loop_retry_ngram_size=settings.loop_retry_ngram_size,
        stopping=STOPPINGS[settings.stopping],
        forces_end=metadata.forces_end,
    )


def defaults_of(manifest: manifest_pb2.Manifest) -> dict[str, Any]:
    """Return the defaults of requests that an export chose, by its settings."""
    defaults = manifest.generation_defaults
    return {
        "beam_size": defaults.beam_size,
        "length_penalty": defaults.length_penalty,
        "loop_retry_ngram_size": defaults.loop_retry_ngram_size,
        "stopping": next(name for name, number in STOPPINGS.items() if number == defaults.stopping),
    }


def _source_format(metadata: PreparedMetadata) -> manifest_pb2.SourceFormat:
    source_format = manifest_pb2.SourceFormat(
        normalization=metadata.source_normalization,
        language_prefix_ids=metadata.language_prefix_ids,
        source_language_ids=metadata.source_language_ids,
    )
    if metadata.source_language_place == "after_end":
        source_format.source_language_place = manifest_pb2.SOURCE_LANGUAGE_PLACE_AFTER_END
    return source_format


def _target_format(metadata: PreparedMetadata) -> manifest_pb2.TargetFormat:
    return manifest_pb2.TargetFormat(language_ids=metadata.target_language_ids, silent_ids=metadata.silent_ids)


def _table_files(folder: Path) -> tuple[str, str]:
    """Return the names of the tables of source and target ids, empty if the ids are SentencePiece's own."""
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
        suggestions=graph_of(SUGGESTIONS_FILE, tensors.suggestions_inputs(), tensors.suggestions_outputs(config)),
        decoder=graph_of(
            SHORTLIST_DECODER_FILE,
            tensors.with_choices(tensors.decoder_inputs(config, floats)),
            tensors.decoder_outputs(config, floats),
        ),
    )
