"""The pipeline from a checkpoint to a bundle: load, build, certify, write."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from xuanzang.bundle.v1 import manifest_pb2
from xuanzang.export.bundle.card import model_card
from xuanzang.export.bundle.folder import next_version, write_bundle
from xuanzang.export.bundle.graph_files import graph_files
from xuanzang.export.bundle.manifest import make_manifest
from xuanzang.export.calibration import calibrate, calibration_ids
from xuanzang.export.certification.certificate import Certificate
from xuanzang.export.certification.certify import certify
from xuanzang.export.graphs.build import build_graphs
from xuanzang.export.graphs.precision import Floats, Int8, Precision
from xuanzang.export.pairs import read_usable_pairs
from xuanzang.export.settings import ExportSettings
from xuanzang.model.checkpoint import Checkpoint, CheckpointError, load_checkpoint
from xuanzang.model.data.corpus import Pair
from xuanzang.model.data.shortlist import load_shortlist
from xuanzang.model.translation import use_fastest_threads

logger = logging.getLogger(__name__)


def export(settings: ExportSettings) -> Path:
    """Write a bundle and return its folder.

    Raises:
        CheckpointError: The checkpoint cannot be loaded, or not for the languages of the validation pairs.
        CorpusError: The validation pairs or the shortlist cannot be read.
        ParityError: The graphs do not compute what the checkpoint does; nothing is written.
    """
    checkpoint = _between(load_checkpoint(settings.checkpoint), settings)
    use_fastest_threads(checkpoint)
    shortlist = load_shortlist(settings.shortlist, settings.checkpoint) if settings.shortlist else None
    pairs = read_usable_pairs(checkpoint, settings.valid)
    *compared, shipped = _precisions(checkpoint, pairs, settings)
    graphs = [build_graphs(checkpoint.model, precision) for precision in compared]
    graphs.append(build_graphs(checkpoint.model, shipped, shortlist))
    certificate = certify(checkpoint, graphs, pairs, settings)
    version = settings.version or next_version(settings.repository / settings.model)
    manifest = make_manifest(checkpoint, settings, version, certificate.machine)
    files = graph_files(graphs[-1]) | _text_files(checkpoint, manifest)
    files |= _documents(checkpoint, settings, version, certificate)
    folder = settings.repository / settings.model / str(version)
    write_bundle(folder, files, manifest)
    logger.info("wrote %s, %.1f MB", folder, sum(map(len, files.values())) / 1e6)
    return folder


def _between(checkpoint: Checkpoint, settings: ExportSettings) -> Checkpoint:
    """Return the checkpoint for the languages of the validation pairs, which nobody can guess among many."""
    metadata, missing = checkpoint.metadata, list[str]()
    for side, given, ids in (
        ("source", settings.source_language, metadata.source_language_ids),
        ("target", settings.target_language, metadata.target_language_ids),
    ):
        if len(ids) > 1 and not given:
            missing.append(f"--{side}-language, one of {', '.join(sorted(ids))}")
    if missing:
        raise CheckpointError(
            f"{checkpoint.folder} has many languages; those of --valid are needed: {'; '.join(missing)}"
        )
    return checkpoint.between(settings.source_language, settings.target_language)


def _precisions(checkpoint: Checkpoint, pairs: Sequence[Pair], settings: ExportSettings) -> list[Precision]:
    """Return the number formats to build: float32 for comparison, and last the shipped one."""
    if settings.precision == "float32":
        return [Floats("float32")]
    if settings.precision == "float16":
        return [Floats("float32"), Floats("float16")]
    # From the end of the file: quality and parity are measured on sentences from its start.
    calibrating = calibration_ids(checkpoint, pairs[-settings.calibration_sentences :])
    return [Floats("float32"), Int8(calibrate(checkpoint.model, calibrating))]


def _documents(
    checkpoint: Checkpoint, settings: ExportSettings, version: int, certificate: Certificate
) -> dict[str, bytes]:
    return {
        "certificate.json": (certificate.model_dump_json(indent=2) + "\n").encode(),
        "MODEL_CARD.md": model_card(checkpoint, certificate, settings, version).encode(),
    }


def _text_files(checkpoint: Checkpoint, manifest: manifest_pb2.Manifest) -> dict[str, bytes]:
    """Return the tokenisers and the tables of ids that a manifest names."""
    tokenizers = {manifest.source_tokenizer, manifest.target_tokenizer}
    tables = {manifest.source_vocabulary, manifest.target_vocabulary} - {""}
    return {name: (checkpoint.folder / name).read_bytes() for name in tokenizers | tables}
