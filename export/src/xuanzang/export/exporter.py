"""The pipeline from a checkpoint to a bundle: load, build, certify, write."""

from __future__ import annotations

import logging
import tempfile
from contextlib import closing
from pathlib import Path

from xuanzang.bundle.v1 import manifest_pb2
from xuanzang.export.bundle.card import model_card
from xuanzang.export.bundle.folder import next_version, write_bundle, write_graph_files
from xuanzang.export.bundle.manifest import make_manifest
from xuanzang.export.calibration import CalibrationIds, calibrate, reference_ids, translation_ids
from xuanzang.export.certification.certificate import Certificate
from xuanzang.export.certification.certify import Certifier
from xuanzang.export.examples import Examples, choose_languages, read_examples, read_usable_pairs
from xuanzang.export.graphs.build import GraphSet, build_graphs
from xuanzang.export.graphs.precision import Floats, Int8, Precision
from xuanzang.export.settings import ExportSettings
from xuanzang.export.weight_store import WeightStore
from xuanzang.model.data.shortlist import Shortlist, load_shortlist
from xuanzang.model.stored_checkpoint import StoredCheckpoint, inherited_defaults, read_checkpoint

logger = logging.getLogger(__name__)


def export(settings: ExportSettings) -> Path:
    """Write a bundle and return its folder.

    Raises:
        CheckpointError: The checkpoint cannot be loaded, or not for the languages of the validation pairs.
        CorpusError: The sentences or the shortlist cannot be read.
        ParityError: The graphs do not compute what the checkpoint does; nothing is written.
    """
    checkpoint = choose_languages(read_checkpoint(settings.checkpoint), settings)
    if defaults := inherited_defaults(checkpoint.training):
        settings = settings.inheriting(defaults)
        taken = ", ".join(f"{name} {getattr(settings, name)}" for name in defaults)
        logger.info("defaults, inherited unless flags say otherwise: %s", taken)
    settings = settings.sized_for(checkpoint.network.size)
    shortlist = load_shortlist(settings.shortlist, settings.checkpoint) if settings.shortlist else None
    with tempfile.TemporaryDirectory() as scratch, closing(WeightStore(Path(scratch))) as weights:
        graphs, certificate, terms = _certified(checkpoint, settings, shortlist, weights)
        for gap in certificate.not_measured:
            logger.warning("not measured: %s", gap)
        return _write(checkpoint, settings, graphs, certificate, terms)


def _certified(
    checkpoint: StoredCheckpoint, settings: ExportSettings, shortlist: Shortlist | None, weights: WeightStore
) -> tuple[GraphSet, Certificate, manifest_pb2.Terms]:
    """Build and measure float32 graphs for comparison, and last the shipped ones."""
    examples = read_examples(checkpoint, settings)
    tests = {name: read_usable_pairs(checkpoint, path) for name, path in settings.test.items()}
    certifier = Certifier(checkpoint, examples, tests, settings)
    shipped = settings.precision == "float32"
    graphs = _measured(certifier, checkpoint, Floats("float32"), shortlist if shipped else None, weights)
    if not shipped:
        precision = _rounded(checkpoint, examples, certifier, settings)
        graphs = _measured(certifier, checkpoint, precision, shortlist, weights)
    return graphs, certifier.certificate(), certifier.terms


def _measured(
    certifier: Certifier,
    checkpoint: StoredCheckpoint,
    precision: Precision,
    shortlist: Shortlist | None,
    weights: WeightStore,
) -> GraphSet:
    logger.info("%s: building and measuring the graphs", precision.name)
    graphs = build_graphs(checkpoint.network, precision, shortlist, weights)
    # Numpy's weights and onnxruntime's are not needed at the same time.
    checkpoint.weights.release()
    certifier.measure(graphs)
    return graphs


def _rounded(
    checkpoint: StoredCheckpoint, examples: Examples, certifier: Certifier, settings: ExportSettings
) -> Precision:
    """Return the number format of fewer bits that is shipped."""
    if settings.precision == "float16":
        return Floats("float16")
    precision = Int8(calibrate(checkpoint.network, _calibration_ids(checkpoint, examples, certifier, settings)))
    checkpoint.weights.release()
    return precision


def _calibration_ids(
    checkpoint: StoredCheckpoint, examples: Examples, certifier: Certifier, settings: ExportSettings
) -> list[CalibrationIds]:
    count = settings.calibration_sentences
    if examples.kind == "pairs":
        # From the end of the file: quality and parity are measured on sentences from its start.
        return reference_ids(checkpoint, examples.sentences[-count:])
    return translation_ids(checkpoint, examples.sentences, certifier.translations)[-count:]


def _write(
    checkpoint: StoredCheckpoint,
    settings: ExportSettings,
    graphs: GraphSet,
    certificate: Certificate,
    terms: manifest_pb2.Terms,
) -> Path:
    version = settings.version or next_version(settings.repository / settings.model)
    manifest = make_manifest(checkpoint, settings, version, certificate.machine)
    manifest.terms.CopyFrom(terms)
    files = _text_files(checkpoint, manifest) | {
        "certificate.json": (certificate.model_dump_json(indent=2) + "\n").encode(),
        "MODEL_CARD.md": model_card(checkpoint, certificate, settings, version).encode(),
    }
    folder = settings.repository / settings.model / str(version)
    size = write_bundle(folder, files, manifest, lambda scratch: write_graph_files(graphs, scratch))
    logger.info("wrote %s, %.1f MB", folder, size / 1e6)
    return folder


def _text_files(checkpoint: StoredCheckpoint, manifest: manifest_pb2.Manifest) -> dict[str, bytes]:
    """Return the tokenisers and the tables of ids that a manifest names."""
    tokenizers = {manifest.source_tokenizer, manifest.target_tokenizer}
    tables = {manifest.source_vocabulary, manifest.target_vocabulary} - {""}
    return {name: (checkpoint.folder / name).read_bytes() for name in tokenizers | tables}
