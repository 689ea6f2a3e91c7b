"""The tiny model in torch and in the server's engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
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
    tiny_checkpoint: Path,
    toy_files: tuple[Path, Path],
    tiny_bundle_repository: Path,
    build_once: Callable[[str, Callable[[Path], object]], Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> ExportTiny:
    settings = {
        "checkpoint": tiny_checkpoint,
        "model": "tiny",
        "precision": "float32",
        "valid": toy_files[1],
        "parity_sentences": 5,
        "evaluation_sentences": 8,
        "max_bleu_change": 100.0,  # of random weights they mean nothing
        "max_chrf_change": 100.0,
    }

    def export_as(repository: Path, **changes: Any) -> Path:
        return export(ExportSettings.model_validate(settings | {"repository": repository} | changes))

    def export_tiny(*, shortlist: Shortlist | None = None, **changes: Any) -> Path:
        if shortlist is None and changes == {"precision": "float32"}:
            return tiny_bundle_repository / "tiny" / "1"
        if shortlist is None and changes.keys() == {"precision"}:
            models = build_once(f"tiny-{changes['precision']}", partial(export_as, **changes))
            return models / "tiny" / "1"
        folder = tmp_path_factory.mktemp("exported")
        if shortlist:
            changes["shortlist"] = folder / "shortlist.safetensors"
            save_shortlist(changes["shortlist"], shortlist, tiny_checkpoint)
        return export_as(**{"repository": folder / "models", **changes})

    return export_tiny


OUTSIDE = 300
"""The first of the ids that the shortlist below has not."""
ALWAYS = [*range(4), *range(270, 290)]


@pytest.fixture(scope="session")
def some_shortlist(checkpoint: Checkpoint) -> Shortlist:
    """Return a shortlist of the three ids that follow each source id, none of them from OUTSIDE on."""
    ids = np.arange(checkpoint.model.config.source_vocab_size)[:, None] + np.arange(3)
    return Shortlist((ids % OUTSIDE).astype(np.int32), np.array(ALWAYS, np.int32))


@pytest.fixture(scope="session")
def open_runtime(
    export_tiny: ExportTiny, student_bundle: Callable[[str, bool], Path], some_shortlist: Shortlist, provider: str
) -> Callable[[str, bool], Sessions]:
    """Return a function that opens the graphs of the tiny model, with a shortlist or not, or of a student.

    With or without kernels.
    """

    def open_runtime(precision: str, kernels: bool) -> Sessions:
        if precision.startswith("student"):
            folder = student_bundle(precision.removeprefix("student "), True)
        else:
            shortlist = some_shortlist if "shortlist" in precision else None
            folder = export_tiny(precision=precision.partition(" ")[0], shortlist=shortlist)
        bundle, shortens = load_bundle(folder), "shortlist" in precision
        return Sessions(bundle, provider=provider, intra_op_threads=1, kernels=kernels, shortlist=shortens)

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
