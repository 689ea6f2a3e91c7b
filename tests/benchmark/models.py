"""The models that are measured: checkpoints that were trained, and presets with random weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from ctranslate2_spec import save_as_ctranslate2
from workload import target_limit

from xuanzang.export.bundle import make_manifest, serialize, write_bundle
from xuanzang.export.calibration import calibrate, calibration_ids
from xuanzang.export.certificate import source_ids
from xuanzang.export.graphs import decoder_graph, encoder_graph
from xuanzang.export.settings import ExportSettings
from xuanzang.export.weights import Float32, Int8, Precision
from xuanzang.model.checkpoint import Checkpoint, load_checkpoint
from xuanzang.model.config import PRESETS, TransformerConfig
from xuanzang.model.data.corpus import CorpusError, Pair, read_pairs
from xuanzang.model.data.dataset import PreparedMetadata
from xuanzang.model.tokenizer import Tokenizer
from xuanzang.model.transformer import Transformer

FORCED_TARGET_LENGTH = 25
"""Tokens of every translation of random weights, which would not end where a sentence should."""
CALIBRATION_SENTENCES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkModel:
    """A model to measure."""

    name: str
    """As in the table."""
    checkpoint: Checkpoint
    forced_target_length: int | None
    """Target tokens of every translation; None where the model ends its sentences itself."""


def load_model(name: str, tokenizer: Path) -> BenchmarkModel:
    """Return a model.

    Args:
        name: A preset, which gets random weights, or the folder of a checkpoint.
        tokenizer: SentencePiece model for presets.

    Raises:
        CheckpointError: The checkpoint cannot be loaded.
        OSError: The tokeniser cannot be loaded.
    """
    if name in PRESETS:
        checkpoint = _random_checkpoint(name, tokenizer)
        return BenchmarkModel(name=name, checkpoint=checkpoint, forced_target_length=FORCED_TARGET_LENGTH)
    folder = Path(name).resolve()
    title = f"{folder.parent.name}/{folder.name}"
    return BenchmarkModel(name=title, checkpoint=load_checkpoint(folder), forced_target_length=None)


def read_sentences(checkpoint: Checkpoint, path: Path, *, needed: int) -> tuple[list[Pair], list[list[int]]]:
    """Read the pairs whose translations fit the model whatever their length.

    Returns:
        The pairs, and the source ids of each.

    Raises:
        CorpusError: The file cannot be read, or has fewer of them than needed.
    """
    limit = checkpoint.model.config.max_positions
    encoded = [(pair, source_ids(checkpoint, pair.source)) for pair in read_pairs(path)]
    fitting = [(pair, ids) for pair, ids in encoded if target_limit(ids) <= limit]
    if len(fitting) < needed:
        raise CorpusError(f"{path}: {needed} sentences that fit the model are needed, there are {len(fitting)}")
    return [pair for pair, _ in fitting], [ids for _, ids in fitting]


def write_models(checkpoint: Checkpoint, pairs: Sequence[Pair], folder: Path) -> dict[str, dict[str, Path]]:
    """Write a checkpoint for both engines.

    Args:
        checkpoint: What both get.
        pairs: Real sentences, for the ranges of int8.
        folder: To write to.

    Returns:
        Folders by precision, then engine. CTranslate2 has one for all precisions: it quantises when it loads.
    """
    save_as_ctranslate2(checkpoint, folder / "ctranslate2")
    # From the end of the file: what is measured comes from its start.
    calibration = calibration_ids(checkpoint, pairs[-CALIBRATION_SENTENCES:])
    precisions: list[Precision] = [Float32(), Int8(calibrate(checkpoint.model, calibration))]
    for precision in precisions:
        _write_bundle(checkpoint, precision, folder)
    return {
        precision.name: {"xuanzang": folder / precision.name / "1", "ctranslate2": folder / "ctranslate2"}
        for precision in precisions
    }


def _write_bundle(checkpoint: Checkpoint, precision: Precision, folder: Path) -> None:
    """Write graphs and manifest; nothing is certified, for it is measured here and never served."""
    settings = ExportSettings.model_validate(
        {
            "checkpoint": checkpoint.folder,
            "repository": folder,
            "model": precision.name,
            "precision": precision.name,
            "valid": checkpoint.folder,
        }
    )
    files = {
        "encoder.onnx": serialize(encoder_graph(checkpoint.model, precision)),
        "decoder.onnx": serialize(decoder_graph(checkpoint.model, precision)),
    }
    manifest = make_manifest(checkpoint, settings, version=1, tool_versions={})
    write_bundle(folder / precision.name / "1", files, manifest)


def _random_checkpoint(preset: str, tokenizer_file: Path) -> Checkpoint:
    tokenizer = Tokenizer(tokenizer_file)
    vocab_size = len(tokenizer)
    torch.manual_seed(0)
    config = TransformerConfig(source_vocab_size=vocab_size, target_vocab_size=vocab_size, **PRESETS[preset])
    metadata = PreparedMetadata(
        source_language="zh",
        target_language="en",
        source_normalization="nfkc",
        share_vocabulary=True,
        source_vocab_size=vocab_size,
        target_vocab_size=vocab_size,
        corpora=[],
        weights=[],
        train_pairs=0,
        valid_pairs=0,
        filter_counts={},
        data_sha256="",
    )
    return Checkpoint(
        model=Transformer(config).eval(),
        source_tokenizer=tokenizer,
        target_tokenizer=tokenizer,
        metadata=metadata,
        training={},
        folder=tokenizer_file.parent,
    )
