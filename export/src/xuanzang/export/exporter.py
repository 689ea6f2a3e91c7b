"""The pipeline: load the checkpoint, build the graphs, certify them, write the bundle."""

from __future__ import annotations

import logging
from pathlib import Path

from xuanzang.export.bundle import make_manifest, next_version, serialize, write_bundle
from xuanzang.export.calibration import calibrate, calibration_ids
from xuanzang.export.card import model_card
from xuanzang.export.certificate import Graphs, certify, read_usable_pairs
from xuanzang.export.graphs import decoder_graph, encoder_graph
from xuanzang.export.runner import OnnxModel
from xuanzang.export.settings import ExportSettings
from xuanzang.export.weights import Float32, Int8, Precision
from xuanzang.model.checkpoint import load_checkpoint

logger = logging.getLogger(__name__)


def export(settings: ExportSettings) -> Path:
    """Write a bundle and return its folder.

    Raises:
        CheckpointError: The checkpoint cannot be loaded.
        CorpusError: The validation pairs cannot be read.
        ParityError: The graphs do not do what the checkpoint does; nothing is written.
    """
    checkpoint = load_checkpoint(settings.checkpoint)
    pairs = read_usable_pairs(checkpoint, settings.valid)
    precisions: list[Precision] = [Float32()]
    if settings.precision == "int8":
        # From the end of the file: quality and parity are measured on sentences from its start.
        calibrating = pairs[-settings.calibration_sentences :]
        precisions.append(Int8(calibrate(checkpoint.model, calibration_ids(checkpoint, calibrating))))
    built = [(p.name, encoder_graph(checkpoint.model, p), decoder_graph(checkpoint.model, p)) for p in precisions]
    graphs = [Graphs(name, OnnxModel(encoder, decoder, checkpoint.model.config)) for name, encoder, decoder in built]
    certificate = certify(checkpoint, graphs, pairs, settings)

    version = settings.version or next_version(settings.repository / settings.model)
    files = {
        "encoder.onnx": serialize(built[-1][1]),
        "decoder.onnx": serialize(built[-1][2]),
        "certificate.json": (certificate.model_dump_json(indent=2) + "\n").encode(),
        "MODEL_CARD.md": model_card(checkpoint, certificate, settings, version).encode(),
    }
    manifest = make_manifest(checkpoint, settings, version, certificate.machine)
    for name in {manifest.source_tokenizer, manifest.target_tokenizer}:
        files[name] = (checkpoint.folder / name).read_bytes()
    folder = settings.repository / settings.model / str(version)
    write_bundle(folder, files, manifest)
    logger.info("wrote %s, %.1f MB", folder, sum(map(len, files.values())) / 1e6)
    return folder
