"""The pipeline: load the checkpoint, build the graphs, certify them, write the bundle."""

from __future__ import annotations

import logging
from pathlib import Path

import onnx

from xuanzang.export.bundle import make_manifest, next_version, serialize, write_bundle
from xuanzang.export.calibration import calibrate, calibration_ids
from xuanzang.export.card import model_card
from xuanzang.export.certificate import Graphs, certify, read_usable_pairs
from xuanzang.export.graphs import decoder_graph, encoder_graph, shortlist_decoder_graph
from xuanzang.export.runner import OnnxModel, ShortlistedModel
from xuanzang.export.settings import ExportSettings
from xuanzang.export.shortlist import always_pieces, suggestions_graph
from xuanzang.export.weights import Floats, Int8, Precision
from xuanzang.model.checkpoint import Checkpoint, load_checkpoint
from xuanzang.model.data.shortlist import Shortlist, load_shortlist

logger = logging.getLogger(__name__)


def export(settings: ExportSettings) -> Path:
    """Write a bundle and return its folder.

    Raises:
        CheckpointError: The checkpoint cannot be loaded.
        CorpusError: The validation pairs or the shortlist cannot be read.
        ParityError: The graphs do not do what the checkpoint does; nothing is written.
    """
    checkpoint = load_checkpoint(settings.checkpoint)
    shortlist = load_shortlist(settings.shortlist, settings.checkpoint) if settings.shortlist else None
    pairs = read_usable_pairs(checkpoint, settings.valid)
    precisions: list[Precision] = [Floats("float32")]
    if settings.precision == "int8":
        # From the end of the file: quality and parity are measured on sentences from its start.
        calibrating = pairs[-settings.calibration_sentences :]
        precisions.append(Int8(calibrate(checkpoint.model, calibration_ids(checkpoint, calibrating))))
    elif settings.precision == "float16":
        precisions.append(Floats("float16"))
    built = [(p.name, encoder_graph(checkpoint.model, p), decoder_graph(checkpoint.model, p)) for p in precisions]
    graphs = [Graphs(name, OnnxModel(encoder, decoder, checkpoint.model.config)) for name, encoder, decoder in built]
    extra, shortlisted = {}, None
    if shortlist:
        extra = _shortlist_graphs(checkpoint, precisions[-1], shortlist)
        shortlisted = ShortlistedModel(
            built[-1][1],
            extra["decoder.shortlist.onnx"],
            extra["suggestions.onnx"],
            checkpoint.model.config,
        )
    certificate = certify(checkpoint, graphs, pairs, settings, shortlisted)

    version = settings.version or next_version(settings.repository / settings.model)
    files = {
        "encoder.onnx": serialize(built[-1][1]),
        "decoder.onnx": serialize(built[-1][2]),
        **{name: serialize(graph) for name, graph in extra.items()},
        "certificate.json": (certificate.model_dump_json(indent=2) + "\n").encode(),
        "MODEL_CARD.md": model_card(checkpoint, certificate, settings, version).encode(),
    }
    manifest = make_manifest(checkpoint, settings, version, certificate.machine)
    tables = {manifest.source_vocabulary, manifest.target_vocabulary} - {""}
    for name in {manifest.source_tokenizer, manifest.target_tokenizer} | tables:
        files[name] = (checkpoint.folder / name).read_bytes()
    folder = settings.repository / settings.model / str(version)
    write_bundle(folder, files, manifest)
    logger.info("wrote %s, %.1f MB", folder, sum(map(len, files.values())) / 1e6)
    return folder


def _shortlist_graphs(checkpoint: Checkpoint, precision: Precision, shortlist: Shortlist) -> dict[str, onnx.ModelProto]:
    model = checkpoint.model
    return {
        "decoder.shortlist.onnx": shortlist_decoder_graph(model, precision, always_pieces(shortlist, model.config)),
        "suggestions.onnx": suggestions_graph(shortlist, model.config),
    }
