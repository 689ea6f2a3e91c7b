"""The tiny model in torch and in the server's engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from xuanzang.export.exporter import export
from xuanzang.export.settings import ExportSettings
from xuanzang.model.checkpoint import Checkpoint, load_checkpoint
from xuanzang.server.bundles.repository import load_bundle
from xuanzang.server.engine.decoding.decoder import Decoder
from xuanzang.server.engine.decoding.hypotheses import SearchOptions, Sentence, TargetHypothesis
from xuanzang.server.engine.runtime.sessions import Sessions

Serve = Callable[[Sequence[list[int]], Sequence[SearchOptions]], list[list[TargetHypothesis]]]
"""Function that decodes sentences in one batch, each with its own options."""


@pytest.fixture(scope="session")
def checkpoint(tiny_checkpoint: Path) -> Checkpoint:
    return load_checkpoint(tiny_checkpoint)


@pytest.fixture(scope="session")
def open_runtime(
    tiny_checkpoint: Path,
    toy_files: tuple[Path, Path],
    student_bundle: Callable[[str, bool], Path],
    tmp_path_factory: pytest.TempPathFactory,
    provider: str,
) -> Callable[[str, bool], Sessions]:
    """Return a function that exports the tiny model, or a student, and opens its graphs, with or without kernels."""

    def open_runtime(precision: str, kernels: bool) -> Sessions:
        if precision.startswith("student"):
            bundle = load_bundle(student_bundle(precision.removeprefix("student "), True))
            return Sessions(bundle, provider=provider, intra_op_threads=1, kernels=kernels)
        settings = ExportSettings.model_validate(
            {
                "checkpoint": tiny_checkpoint,
                "repository": tmp_path_factory.mktemp(precision),
                "model": "tiny",
                "precision": precision,
                "valid": toy_files[1],
                "parity_sentences": 5,
                "evaluation_sentences": 8,
                "max_bleu_change": 100.0,  # of random weights it means nothing
                "max_chrf_change": 100.0,
            }
        )
        return Sessions(load_bundle(export(settings)), provider=provider, intra_op_threads=1, kernels=kernels)

    return open_runtime


@pytest.fixture(scope="session")
def open_imported(
    toy_files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory, provider: str
) -> Callable[..., Sessions]:
    """Return a function that exports an imported model and opens its graphs."""

    def open_imported(checkpoint: Path, **languages: str) -> Sessions:
        settings = ExportSettings.model_validate(
            {
                "checkpoint": checkpoint,
                "repository": tmp_path_factory.mktemp("models"),
                "model": "imported",
                "precision": "float32",
                "valid": toy_files[1],
                "parity_sentences": 3,
                "evaluation_sentences": 4,
                **languages,
            }
        )
        return Sessions(load_bundle(export(settings)), provider=provider, intra_op_threads=1)

    return open_imported


@pytest.fixture(scope="session")
def runtime(tiny_bundle_repository: Path, provider: str) -> Sessions:
    return Sessions(load_bundle(tiny_bundle_repository / "tiny" / "1"), provider=provider, intra_op_threads=1)


@pytest.fixture(scope="session")
def serve(runtime: Sessions) -> Serve:
    def decode(sources: Sequence[list[int]], options: Sequence[SearchOptions]) -> list[list[TargetHypothesis]]:
        decoder = Decoder(runtime)
        tasks = [Sentence(source_ids=ids, options=option) for ids, option in zip(sources, options, strict=True)]
        decoder.admit(tasks)
        found: dict[Sentence, list[TargetHypothesis]] = {}
        while len(decoder):
            found.update(decoder.step())
        return [found[task] for task in tasks]

    return decode
