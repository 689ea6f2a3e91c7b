"""An engine whose decoders return the source as its translation, one token a step, when the test allows it."""

from __future__ import annotations

import asyncio
import math
import shutil
import threading
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from search_options import search_options

from xuanzang.kernels.decode import StepLimit
from xuanzang.server.engine.decoding.decoder import BatchShape, Decoder
from xuanzang.server.engine.decoding.hypotheses import Advance, Sentence, TargetHypothesis
from xuanzang.server.engine.engine import Engine
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.settings import EngineSettings, PromotionSettings
from xuanzang.server.engine.types import DecodingOptions
from xuanzang.server.metrics import Metrics


@dataclass
class Script:
    """What the decoders of a test may do, and what they have done."""

    changed: threading.Condition = field(default_factory=threading.Condition)
    permits: float = math.inf
    """Steps that may still be made; others wait."""
    blocked: int = 0
    """Decoders that wait within a step."""
    fault: Exception | None = None
    """Raised by steps."""
    wrong_versions: Collection[int] = ()
    """Versions of the model that translate wrongly."""
    worse_versions: Collection[int] = ()
    """Versions that translate as certified, and callers' texts wrongly."""
    batches: list[list[int]] = field(default_factory=list)
    """Source lengths of the batches that were admitted."""
    discarded: list[Sentence] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    """Versions whose decoders made a step."""
    shrunk: int = 0
    """How often decoders were to free the memory of their graphs."""

    def allow(self, steps: float) -> None:
        with self.changed:
            self.permits = steps
            self.changed.notify_all()

    def step(self) -> None:
        with self.changed:
            self.blocked += 1
            self.changed.notify_all()
            self.changed.wait_for(lambda: self.permits > 0)
            self.permits -= 1
            self.blocked -= 1
        if self.fault:
            raise self.fault

    async def until(self, happened: Callable[[Script], object]) -> None:
        """Wait for an event in the decoders."""

        def wait() -> None:
            with self.changed:
                assert self.changed.wait_for(lambda: happened(self), timeout=60)

        await asyncio.to_thread(wait)


class EchoDecoder(Decoder):
    """Stands in for the graphs, which unit tests of the engine do without."""

    def __init__(self, script: Script, version: int) -> None:
        self._script = script
        self._version = version
        serves = threading.current_thread().name.startswith("worker")
        self._wrong = version in script.wrong_versions or (serves and version in script.worse_versions)
        self._left: dict[Sentence, int] = {}

    @property
    def held_bytes(self) -> dict[BatchShape, int]:
        return {BatchShape.of(sentence.options.decoding): 100 * len(self._left) for sentence in self._left}

    def admit(self, sentences: Sequence[Sentence]) -> None:
        self._script.batches.append([len(sentence.source_ids) for sentence in sentences])
        self._left |= {sentence: self._length(sentence) for sentence in sentences}

    @staticmethod
    def _length(sentence: Sentence) -> int:
        return min(len(sentence.source_ids), sentence.options.max_target_length)

    def advance(self, limit: StepLimit) -> Advance[Sentence]:
        self._script.step()
        self._script.steps.append(self._version)
        self._left = {sentence: left - 1 for sentence, left in self._left.items()}
        finished = [sentence for sentence, left in self._left.items() if not left]
        for sentence in finished:
            del self._left[sentence]
        return Advance(1, [(sentence, self._echo(sentence)) for sentence in finished], [0] * len(finished))

    def _echo(self, sentence: Sentence) -> list[TargetHypothesis]:
        length = self._length(sentence)
        finished = length == len(sentence.source_ids)
        target_ids = sentence.source_ids[: length - 1 if finished else length]
        return [
            TargetHypothesis(
                target_ids=target_ids[::-1] if self._wrong else target_ids,
                score=-float(rank + 1),
                token_count=length,
                finished=finished,
            )
            for rank in range(sentence.options.decoding.num_hypotheses)
        ]

    def trim(self) -> None:
        """Keep what it has, which is nothing."""

    def shrink(self) -> None:
        self._script.shrunk += 1

    def discard(self, sentences: Collection[Sentence]) -> None:
        for sentence in sentences:
            del self._left[sentence]
            self._script.discarded.append(sentence)

    def committed(self, sentence: Sentence) -> list[int]:
        return sentence.source_ids[: self._length(sentence) - self._left[sentence]]

    def __len__(self) -> int:
        return len(self._left)


class EchoModel(LoadedModel):
    def __init__(self, directory: Path, metrics: Metrics, script: Script) -> None:
        super().__init__(directory, metrics)
        self._script = script

    def new_decoder(self) -> Decoder:
        return EchoDecoder(self._script, self.version)


class EchoEngine(Engine):
    def __init__(self, models: Path, script: Script, **arguments: Any) -> None:
        super().__init__(models, **arguments)
        self._script = script

    def _load_model(self, directory: Path) -> LoadedModel:
        return EchoModel(directory, self._metrics, self._script)


@pytest.fixture
def options() -> DecodingOptions:
    return search_options(beam_size=2).decoding


@pytest.fixture
def add_version(repository: Path, edit_manifest: Any) -> Callable[..., Path]:
    """Writes version 1 of the model under another number, with other facts in its manifest."""

    def add(version: int, **facts: Any) -> Path:
        folder = Path(shutil.copytree(repository / "small" / "1", repository / "small" / str(version)))
        edit_manifest(folder, lambda manifest: manifest.update(version=version, **facts))
        return folder

    return add


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(CollectorRegistry())


@pytest.fixture
def script() -> Script:
    return Script()


MakeEngine = Callable[..., EchoEngine]


@pytest.fixture
def model(repository: Path, metrics: Metrics) -> LoadedModel:
    return LoadedModel(repository / "small" / "1", metrics)


@pytest.fixture
async def make_engine(repository: Path, script: Script, metrics: Metrics) -> AsyncIterator[MakeEngine]:
    """Makes engines over the model "small", to be started by the test; their threads end with it."""
    engines = []

    def make(settings: EngineSettings, promotion: PromotionSettings | None = None) -> EchoEngine:
        engines.append(EchoEngine(repository, script, settings=settings, metrics=metrics, promotion=promotion))
        return engines[-1]

    yield make
    script.allow(math.inf)
    for engine in engines:
        await engine.join(0)


@pytest.fixture
async def engine(make_engine: MakeEngine, script: Script) -> EchoEngine:
    """Serves with one worker."""
    engine = make_engine(EngineSettings(workers=1))
    await engine.start()
    script.batches.clear()
    return engine
