from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import pytest

from xuanzang.server.engine.engine import EngineSettings
from xuanzang.server.engine.errors import DrainingError, OverloadedError
from xuanzang.server.engine.model import LoadedModel
from xuanzang.server.engine.request import QueuedSentence, Request
from xuanzang.server.engine.scheduler import Scheduler
from xuanzang.server.engine.values import DecodingOptions
from xuanzang.server.metrics import Metrics


@pytest.fixture
def model(repository: Path) -> LoadedModel:
    return LoadedModel(repository / "small" / "1")


class Queue:
    """A scheduler whose requests are told by the lengths of their sentences."""

    def __init__(
        self, model: LoadedModel, options: DecodingOptions, metrics: Metrics, settings: EngineSettings
    ) -> None:
        self.scheduler = Scheduler(settings, workers=2, metrics=metrics)
        self._model = model
        self._options = options

    def submit(self, *lengths: int, model: LoadedModel | None = None) -> Request:
        model = model or self._model
        request = Request(model, [model.sentence((5,) * length, self._options) for length in lengths])
        self.scheduler.submit(request)
        return request

    def take(self) -> list[int]:
        return lengths(self.scheduler.take())


def lengths(batch: list[QueuedSentence]) -> list[int]:
    return [queued.source_tokens for queued in batch]


@pytest.fixture
def make_queue(model: LoadedModel, options: DecodingOptions, metrics: Metrics) -> Any:
    def make(**settings: Any) -> Queue:
        return Queue(model, options, metrics, EngineSettings(**{"batch_delay_seconds": 0.0} | settings))

    return make


async def test_a_batch_is_the_oldest_sentence_and_the_nearest_in_length_of_all_requests(make_queue: Any) -> None:
    queue = make_queue(max_batch_sentences=3)
    queue.submit(10, 30)
    queue.submit(11, 2)
    queue.submit(9)
    assert queue.take() == [10, 11, 9]
    assert queue.take() == [30, 2]


async def test_a_batch_keeps_to_its_source_tokens_padding_counted(make_queue: Any) -> None:
    queue = make_queue(max_batch_source_tokens=40)
    queue.submit(10, 20, 5, 5, 5)
    assert queue.take() == [10, 5, 5, 5]
    assert queue.take() == [20]


async def test_a_sentence_longer_than_the_budget_is_a_batch_by_itself(make_queue: Any) -> None:
    queue = make_queue(max_batch_source_tokens=8)
    queue.submit(20, 1)
    assert queue.take() == [20]


async def test_idle_workers_share_what_waits(make_queue: Any) -> None:
    queue = make_queue()
    first, second = (asyncio.ensure_future(asyncio.to_thread(queue.take)) for _ in range(2))
    while queue.scheduler._idle_workers < 2:  # noqa: ASYNC110 - threads arriving at a lock have no event
        await asyncio.sleep(0)
    queue.submit(3, 3, 3, 3, 3)
    assert sorted(await asyncio.gather(first, second)) == [[3, 3], [3, 3, 3]]


async def test_a_full_batch_does_not_wait_for_more(make_queue: Any) -> None:
    queue = make_queue(max_batch_sentences=2, batch_delay_seconds=3600)
    queue.submit(4, 4)
    assert queue.take() == [4, 4]


async def test_an_idle_worker_waits_for_more_until_the_batch_is_full(make_queue: Any) -> None:
    queue = make_queue(max_batch_sentences=2, batch_delay_seconds=3600)
    queue.submit(4)
    taking = asyncio.ensure_future(asyncio.to_thread(queue.take))
    while not queue.scheduler._idle_workers:  # noqa: ASYNC110 - a thread arriving at a lock has no event
        await asyncio.sleep(0)
    assert not taking.done()
    queue.submit(6)
    assert await taking == [4, 6]


async def test_a_batch_has_one_model_and_the_model_that_waits_longest_is_first(
    make_queue: Any, repository: Path
) -> None:
    other = LoadedModel(repository / "small" / "1")
    queue = make_queue()
    queue.submit(4)
    queue.submit(5, model=other)
    queue.submit(6)
    assert queue.take() == [4, 6]
    assert queue.take() == [5]


async def test_what_is_closed_leaves_the_queue_and_makes_room(make_queue: Any) -> None:
    queue = make_queue(max_queue_source_tokens=10)
    gone = queue.submit(5, 4)
    with pytest.raises(OverloadedError):
        queue.submit(2)
    queue.scheduler.close(gone, "cancelled")
    queue.submit(10)
    assert queue.take() == [10]


async def test_a_full_queue_gives_the_measured_time_until_there_is_room(make_queue: Any) -> None:
    queue = make_queue(max_queue_source_tokens=100)
    queue.submit(90)
    with pytest.raises(OverloadedError, match=r"90 of at most 100 source tokens wait, .* for 30") as refusal:
        queue.submit(30)
    assert refusal.value.retry_after_seconds == 1.0  # nothing has been measured
    queue.scheduler.record(50, 2.0)
    with pytest.raises(OverloadedError) as refusal:
        queue.submit(30)
    # 20 source tokens too many, two workers of 25 a second.
    assert math.isclose(refusal.value.retry_after_seconds, 0.4)


async def test_a_blank_request_is_never_overload(make_queue: Any) -> None:
    queue = make_queue(max_queue_source_tokens=10)
    queue.submit(10)
    queue.scheduler.require_room(0)
    with pytest.raises(OverloadedError):
        queue.scheduler.require_room(1)


async def test_stopping_sends_every_waiting_worker_home(make_queue: Any) -> None:
    queue = make_queue()
    taking = [asyncio.ensure_future(asyncio.to_thread(queue.take)) for _ in range(2)]
    queue.scheduler.stop()
    assert await asyncio.gather(*taking) == [[], []]
    assert queue.take() == []


async def test_after_stopping_no_request_is_taken_that_nobody_would_answer(make_queue: Any) -> None:
    queue = make_queue()
    queue.scheduler.stop()
    with pytest.raises(DrainingError):
        queue.submit(1)
