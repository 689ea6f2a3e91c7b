"""Models to measure, loaded and written for both engines."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctranslate2_spec import save_as_ctranslate2

from benchmarks.engines.widening import widened
from benchmarks.engines.workload import target_limit
from xuanzang.export.exporter import export
from xuanzang.export.restoring import restore
from xuanzang.export.settings import ExportSettings
from xuanzang.model.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from xuanzang.model.data.corpus import CorpusError, Pair, read_pairs
from xuanzang.model.data.shortlist import load_shortlist
from xuanzang.model.network.config import PRESETS, TransformerConfig

CALIBRATION_SENTENCES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkModel:
    """Model to measure."""

    name: str
    """Name in the tables."""
    checkpoint: Checkpoint
    pairs: Sequence[Pair]
    """Real sentences, short enough for the model."""
    bundle: Path | None
    """Shipped int8 bundle; None if the model must be exported first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenModel:
    """Model on disk, for both engines."""

    bundles: Mapping[str, Path]
    """Our bundles, by precision."""
    ctranslate2: Path
    """Folder of CTranslate2's model, one for all precisions because it quantises when it loads."""


def load_model(name: str, *, bundle: Path, sentences: Path, scratch: Path) -> BenchmarkModel:
    """Load a model.

    Args:
        name: "bundled", the folder of a checkpoint, or a preset, which gets the bundled model's weights.
        sentences: File of source<TAB>target pairs, plain or .gz.
        scratch: Folder for temporary checkpoints.

    Raises:
        CheckpointError: The checkpoint or the bundle cannot be loaded.
        CorpusError: The sentences cannot be read.
    """
    folder = Path(name).resolve()
    if name == "bundled":
        folder = scratch / "checkpoint"
        restore(bundle, folder)
    elif name in PRESETS:
        folder = scratch / "checkpoint"
        _write_preset(name, bundle, folder)
    else:
        name = f"{folder.parent.name}/{folder.name}"
    checkpoint = load_checkpoint(folder)
    pairs = [pair for pair in read_pairs(sentences) if fits(checkpoint, pair.source)]
    return BenchmarkModel(name=name, checkpoint=checkpoint, pairs=pairs, bundle=bundle if name == "bundled" else None)


def fits(checkpoint: Checkpoint, sentence: str) -> bool:
    """Return whether a model takes a sentence and a translation of it up to the limit of the target."""
    return target_limit(checkpoint.source_ids(sentence)) <= checkpoint.model.config.max_positions


def first_sentences(model: BenchmarkModel, needed: int) -> list[list[int]]:
    """Return the source ids of the first sentences.

    Raises:
        CorpusError: There are fewer than `needed`.
    """
    if len(model.pairs) < needed:
        raise CorpusError(f"{needed} sentences that fit the model are needed, there are {len(model.pairs)}")
    return [model.checkpoint.source_ids(pair.source) for pair in model.pairs[:needed]]


def write_models(
    model: BenchmarkModel, precisions: Sequence[str], sentences: Path, folder: Path, shortlist: Path | None = None
) -> WrittenModel:
    """Write a model for both engines, ours through the exporter, so that it can be served.

    Args:
        precisions: "int8", "float32" or both.
        sentences: File of pairs for calibration and checks.
        shortlist: File of the shortlist for both engines; None for none.

    Raises:
        CorpusError: The shortlist was made with other tokenisers.
        ParityError: The results of a bundle differ from those of the checkpoint.
    """
    table = load_shortlist(shortlist, model.checkpoint.folder) if shortlist else None
    save_as_ctranslate2(model.checkpoint, folder / "ctranslate2", table)
    bundles = {precision: written_bundle(model, precision, sentences, folder, shortlist) for precision in precisions}
    return WrittenModel(bundles=bundles, ctranslate2=folder / "ctranslate2")


def written_bundle(
    model: BenchmarkModel, precision: str, sentences: Path, folder: Path, shortlist: Path | None = None
) -> Path:
    """Export a model or, if it is the shipped one, copy its bundle, so that it is served without other models.

    Args:
        precision: "int8" or "float32".
        sentences: File of pairs for calibration and checks.
        shortlist: File of the shortlist; None for none.

    Returns:
        Folder of the bundle.

    Raises:
        ParityError: The results of the bundle differ from those of the checkpoint.
    """
    if precision == "int8" and model.bundle and not shortlist:
        name, version = model.bundle.parts[-2:]
        return Path(shutil.copytree(model.bundle, folder / precision / name / version))
    settings = ExportSettings.model_validate(
        {
            "checkpoint": model.checkpoint.folder,
            "repository": folder / precision,
            "model": "benchmark",
            "precision": precision,
            "shortlist": shortlist,
            "valid": sentences,
            "calibration_sentences": CALIBRATION_SENTENCES,
            # Enough to check the graphs; quality is measured when a model is released.
            "parity_sentences": 1,
            "evaluation_sentences": 8,
            "max_bleu_change": 100,
            "max_chrf_change": 100,
            "test_sentences": 1,
        }
    )
    return export(settings)


def _write_preset(preset: str, bundle: Path, folder: Path) -> None:
    restored = folder.with_name("trained")
    restore(bundle, restored)
    trained = load_checkpoint(restored).model
    shape: dict[str, Any] = {**PRESETS[preset], "positions": "learned", "max_positions": trained.config.max_positions}
    vocab_size = trained.config.target_vocab_size
    config = TransformerConfig(source_vocab_size=vocab_size, target_vocab_size=vocab_size, **shape)
    weights = dict(widened(trained, config).named_parameters())
    save_checkpoint(folder, weights, config, restored, {"preset": preset})
