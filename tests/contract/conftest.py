"""The tiny model in torch and in the server's engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from decoded import decoded

from xuanzang.export.exporter import export
from xuanzang.export.settings import ExportSettings
from xuanzang.model.checkpoint import Checkpoint, load_checkpoint
from xuanzang.model.data.shortlist import Shortlist, save_shortlist
from xuanzang.server.bundles.repository import load_bundle
from xuanzang.server.engine.decoding.decoder import Decoder
from xuanzang.server.engine.decoding.hypotheses import SearchOptions, Sentence, TargetHypothesis
from xuanzang.server.engine.runtime.sessions import Sessions

Serve = Callable[[Sequence[list[int]], Sequence[SearchOptions]], list[list[TargetHypothesis]]]
"""Function that decodes sentences in one batch, each with its own options."""

ExportTiny = Callable[..., Path]
"""Function that exports the tiny model with some settings changed, and returns the bundle's folder."""


@pytest.fixture(scope="session")
def checkpoint(tiny_checkpoint: Path) -> Checkpoint:
    return load_checkpoint(tiny_checkpoint)


@pytest.fixture(scope="session")
def texts(checkpoint: Checkpoint, toy_pairs: list[tuple[str, str]]) -> list[list[int]]:
    """Return ids of short sentences, of a long text and of a single character, in this order."""
    sources = [source for source, _ in toy_pairs[::60]] + ["Ann有一只猫。我有两只狗。你有三只鸟。" * 2, "狗"]
    return checkpoint.source_tokenizer.encode_all(sources)


@pytest.fixture(scope="session")
def export_tiny(
    tiny_checkpoint: Path, toy_files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> ExportTiny:
    def export_tiny(*, shortlist: Shortlist | None = None, **changes: Any) -> Path:
        folder = tmp_path_factory.mktemp("exported")
        if shortlist:
            changes["shortlist"] = folder / "shortlist.safetensors"
            save_shortlist(changes["shortlist"], shortlist, tiny_checkpoint)
        settings = {
            "checkpoint": tiny_checkpoint,
            "repository": folder / "models",
            "model": "tiny",
            "precision": "float32",
            "valid": toy_files[1],
            "parity_sentences": 5,
            "evaluation_sentences": 8,
            "max_bleu_change": 100.0,  # of random weights they mean nothing
            "max_chrf_change": 100.0,
        }
        return export(ExportSettings.model_validate(settings | changes))

    return export_tiny


@pytest.fixture(scope="session")
def open_runtime(
    export_tiny: ExportTiny, student_bundle: Callable[[str, bool], Path], provider: str
) -> Callable[[str, bool], Sessions]:
    """Return a function that exports the tiny model, or a student, and opens its graphs, with or without kernels."""

    def open_runtime(precision: str, kernels: bool) -> Sessions:
        if precision.startswith("student"):
            folder = student_bundle(precision.removeprefix("student "), True)
        else:
            folder = export_tiny(precision=precision)
        return Sessions(load_bundle(folder), provider=provider, intra_op_threads=1, kernels=kernels)

    return open_runtime


@pytest.fixture(scope="session")
def open_imported(export_tiny: ExportTiny, provider: str) -> Callable[..., Sessions]:
    """Return a function that exports an imported model and opens its graphs."""

    def open_imported(checkpoint: Path, **languages: str) -> Sessions:
        folder = export_tiny(checkpoint=checkpoint, parity_sentences=3, evaluation_sentences=4, **languages)
        return Sessions(load_bundle(folder), provider=provider, intra_op_threads=1)

    return open_imported


@pytest.fixture(scope="session")
def runtime(tiny_bundle_repository: Path, provider: str) -> Sessions:
    return Sessions(load_bundle(tiny_bundle_repository / "tiny" / "1"), provider=provider, intra_op_threads=1)


@pytest.fixture(scope="session")
def serve(runtime: Sessions) -> Serve:
    def decode(sources: Sequence[list[int]], options: Sequence[SearchOptions]) -> list[list[TargetHypothesis]]:
        tasks = [Sentence(source_ids=ids, options=option) for ids, option in zip(sources, options, strict=True)]
        found = decoded(Decoder(runtime), [(0, task) for task in tasks])
        return [found[task] for task in tasks]

    return decode
