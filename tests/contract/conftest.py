"""A tiny model as torch has it and as the server runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from xuanzang.model.checkpoint import Checkpoint, load_checkpoint
from xuanzang.server.bundles.repository import load_bundle
from xuanzang.server.engine.decoding import Decoder, Sentence, TargetHypothesis
from xuanzang.server.engine.runtime import Runtime
from xuanzang.server.engine.search import SearchOptions

Serve = Callable[[Sequence[list[int]], Sequence[SearchOptions]], list[list[TargetHypothesis]]]
"""Decodes sentences in one batch, each with its options."""


@pytest.fixture(scope="session")
def checkpoint(tiny_checkpoint: Path) -> Checkpoint:
    return load_checkpoint(tiny_checkpoint)


@pytest.fixture(scope="session")
def runtime(tiny_bundle_repository: Path) -> Runtime:
    return Runtime(load_bundle(tiny_bundle_repository / "tiny" / "1"), provider="cpu", intra_op_threads=1)


@pytest.fixture(scope="session")
def serve(runtime: Runtime) -> Serve:
    def decode(rows: Sequence[list[int]], options: Sequence[SearchOptions]) -> list[list[TargetHypothesis]]:
        decoder = Decoder(runtime)
        tasks = [Sentence(source_ids=ids, options=option) for ids, option in zip(rows, options, strict=True)]
        decoder.admit(tasks)
        found: dict[Sentence, list[TargetHypothesis]] = {}
        while len(decoder):
            found.update(decoder.step())
        return [found[task] for task in tasks]

    return decode
