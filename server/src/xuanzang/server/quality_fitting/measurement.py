"""Translation of held-out pairs by the engine, and what it measures of each."""

from __future__ import annotations

import dataclasses
import gzip
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from prometheus_client import CollectorRegistry

from xuanzang.server.bundles.quality_head import FlagLimits
from xuanzang.server.engine.engine import Engine
from xuanzang.server.engine.quality.features import SearchedSentence
from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.metrics import Metrics

_TEXTS_TOGETHER = 64
_DRAIN_SECONDS = 10.0
_UNLIMITED = FlagLimits(min_token_ratio=0.0, max_token_ratio=1e6, max_low_attention_share=1.0)


class Pair(NamedTuple):
    """A sentence and its translation by people."""

    source: str
    target: str


class MeasuredPair(NamedTuple):
    """A pair whose source was translated."""

    searched: SearchedSentence
    """What the search has left behind."""
    reference: str
    reference_tokens: int
    """End token counted."""


@dataclass(slots=True, kw_only=True)
class _Recorder:
    """Estimator that keeps what it is asked about, and knows nothing."""

    limits: FlagLimits = _UNLIMITED
    searched: dict[str, SearchedSentence] = field(default_factory=dict)

    def probability(self, sentence: SearchedSentence) -> float:
        self.searched[sentence.source] = sentence
        return 0.5


def read_pairs(path: Path) -> list[Pair]:
    """Read lines of `source<TAB>target`; further columns are ignored, and so are lines with an empty side.

    Args:
        path: File, plain or gzip.

    Raises:
        OSError: It cannot be read.
        ValueError: A line has no tab, the text is not UTF-8, or there are no pairs.
    """
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        pairs = [_pair(line, f"{path}, line {number}") for number, line in enumerate(file, start=1)]
    found = [pair for pair in pairs if pair.source and pair.target]
    if not found:
        raise ValueError(f"{path} has no pairs")
    return found


def _pair(line: str, place: str) -> Pair:
    columns = line.rstrip("\r\n").split("\t")
    if len(columns) < 2:
        raise ValueError(f"{place} has no tab")
    return Pair(columns[0].strip(), columns[1].strip())


async def measure(bundle: Path, sets: Sequence[Sequence[Pair]]) -> list[list[MeasuredPair]]:
    """Translate the sources of sets of pairs as a server does by default.

    Args:
        bundle: Folder of the bundle, `<models>/<name>/<version>`.
        sets: Sets of pairs.

    Returns:
        For each set the pairs whose source is a single sentence.

    Raises:
        BundleError: The bundle cannot be served.
    """
    with tempfile.TemporaryDirectory() as scratch:
        _link(bundle, Path(scratch))
        settings = EngineSettings(detection=False)
        engine = Engine(Path(scratch), settings=settings, metrics=Metrics(CollectorRegistry()))
        await engine.start()
        try:
            return [[pair async for pair in _measured(engine, pairs)] for pairs in sets]
        finally:
            await engine.join(_DRAIN_SECONDS)


def _link(bundle: Path, repository: Path) -> None:
    """Make a repository of one bundle alone."""
    folder = bundle.resolve()
    link = repository / folder.parent.name / folder.name
    link.parent.mkdir()
    link.symlink_to(folder, target_is_directory=True)


async def _measured(engine: Engine, pairs: Sequence[Pair]) -> AsyncIterator[MeasuredPair]:
    [model] = engine.models
    loaded = engine.live.catalog.find(model.name, model.version)
    if loaded is None:
        raise RuntimeError("the engine does not have the model that it serves")
    recorder = _Recorder()
    loaded.quality_estimator = recorder
    options = dataclasses.replace(model.default_options, quality=True)
    for chunk in _chunks(pairs):
        await engine.translate([pair.source for pair in chunk], model=model, options=options, deadline=None)
        for pair in chunk:
            searched = recorder.searched.get(pair.source)
            if searched:
                yield MeasuredPair(searched, pair.target, len(loaded.codec.encode_target(pair.target)) + 1)
        recorder.searched.clear()


def _chunks(pairs: Sequence[Pair]) -> Iterator[Sequence[Pair]]:
    for start in range(0, len(pairs), _TEXTS_TOGETHER):
        yield pairs[start : start + _TEXTS_TOGETHER]
