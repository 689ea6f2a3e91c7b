from __future__ import annotations

import asyncio
import math
from pathlib import Path

import pytest

from xuanzang.server.engine.errors import OverloadedError
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.places import BACKGROUND, Held
from xuanzang.server.engine.scheduling.requests.rendering import SentenceRenderer
from xuanzang.server.engine.scheduling.requests.request import CallContext, FlowKey, PlannedSearch, Request
from xuanzang.server.engine.scheduling.scheduler import Scheduler
from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.engine.types import DecodingOptions
from xuanzang.server.metrics import Metrics

BATCH = 16
MAY_RUN = 2
"""An eighth of a batch."""


@pytest.fixture
def model(repository: Path, metrics: Metrics) -> LoadedModel:
    return LoadedModel(repository / "small" / "1", metrics)


class Queue:
    """The scheduler of one worker; sentences of callers have 3 tokens, those that nobody waits for 5."""

    def __init__(self, model: LoadedModel, options: DecodingOptions) -> None:
        self.scheduler = Scheduler(EngineSettings(max_batch_sentences=BATCH), workers=1)
        self._model = model
        self._options = options

    def submit(self, count: int, *, in_background: bool = False, deadline: float = math.inf) -> Request:
        context = CallContext(model=self._model, in_background=in_background, deadline=deadline)
        sentences = [self._model.sentence((5,) * (5 if in_background else 3), self._options) for _ in range(count)]
        renderer = SentenceRenderer(codec=self._model.codec)
        request = Request(context, [PlannedSearch(sentence, renderer) for sentence in sentences])
        self.scheduler.submit(request)
        return request

    def take(self) -> tuple[int, int]:
        """Take without waiting; return the number of callers' sentences and of others."""
        taken = self.scheduler.take(0, idle_seconds=0) or []
        others = sum(queued.request.in_background for queued in taken)
        return len(taken) - others, others

    def report(self, awaited: int, others: int) -> None:
        held = {(0, ""): Held(awaited, 0), (BACKGROUND, ""): Held(others, 0)}
        self.scheduler.report(0, held={holder: each for holder, each in held.items() if each.places})


@pytest.fixture
async def queue(model: LoadedModel, options: DecodingOptions) -> Queue:
    return Queue(model, options)


@pytest.fixture
def calm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Expect no further callers, however long ago the last one came."""
    monkeypatch.setattr("xuanzang.server.engine.scheduling.background._CALM_SECONDS", -1.0)


@pytest.mark.usefixtures("calm")
async def test_callers_go_first_and_the_rest_has_a_small_part_of_an_idle_worker(queue: Queue) -> None:
    queue.submit(4, in_background=True)
    queue.submit(3)
    assert queue.take() == (3, 0)
    # As long as it has sentences of callers.
    assert queue.take() == (0, 0)
    queue.report(0, 0)
    assert queue.take() == (0, MAY_RUN)
    assert queue.take() == (0, 0)
    queue.report(0, 1)
    assert queue.take() == (0, 1)
    queue.submit(2)
    assert queue.take() == (2, 0)


async def test_between_callers_there_is_one_sentence_at_a_time(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xuanzang.server.engine.scheduling.background._CALM_SECONDS", math.inf)
    queue.submit(4, in_background=True)
    assert queue.take() == (0, 1)
    queue.report(0, 0)
    queue.submit(1)
    assert queue.take() == (1, 0)
    queue.report(0, 0)
    assert queue.take() == (0, 1)
    assert queue.take() == (0, 0)


async def test_an_idle_worker_is_woken_by_work_that_nobody_waits_for(queue: Queue) -> None:
    taking = asyncio.create_task(asyncio.to_thread(queue.scheduler.take, 0))
    queue.submit(1, in_background=True)
    assert [queued.source_tokens for queued in await taking or ()] == [5]


async def test_work_that_nobody_waits_for_is_given_up_when_callers_have_to_wait(queue: Queue) -> None:
    running = queue.submit(MAY_RUN, in_background=True)
    # No caller has come yet.
    assert queue.take() == (0, MAY_RUN)
    waiting = queue.submit(1, in_background=True)
    queue.submit(BATCH)
    assert (running.abandoned, waiting.abandoned) == (None, None)
    queue.submit(1)
    for request in (running, waiting):
        with pytest.raises(OverloadedError, match="callers have to wait"):
            await request.done
        assert request.abandoned == "cancelled"
        queue.scheduler.close(request, "cancelled")
    with pytest.raises(OverloadedError):
        queue.submit(1, in_background=True)


async def test_admission_knows_nothing_of_work_that_nobody_waits_for(queue: Queue, model: LoadedModel) -> None:
    taken_at = queue.submit(400, in_background=True)
    queue.take()
    # The worker is busy with nothing that counts, so even a deadline that cannot be met is given a chance.
    queue.scheduler.require_admission(FlowKey(""), 10**6 // 2, useful_until=math.inf)
    queue.scheduler.require_time("", 0.0)
    assert model.metrics.queue_tokens._value.get() == 0
    assert model.metrics.requests_waiting._value.get() == 0
    queue.scheduler.close(taken_at, "cancelled")
    queue.report(0, 0)
    assert queue.take() == (0, 0)
    assert model.metrics.requests_running._value.get() == 0
