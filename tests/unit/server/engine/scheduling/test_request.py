from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

import pytest

from xuanzang.server.engine.calls.record import CallRecord
from xuanzang.server.engine.decoding.hypotheses import TargetHypothesis
from xuanzang.server.engine.errors import DrainingError
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.request import CallContext, Found, Receiver, Request, SentenceTimeline
from xuanzang.server.engine.threads import Threads
from xuanzang.server.engine.types import DecodingOptions


def timeline(steps: int) -> SentenceTimeline:
    times: dict[str, Any] = {"queued_at": 1.0, "taken_at": 2.0, "encoded_at": 3.0, "finished_at": 4.0}
    return SentenceTimeline(**times, worker=0, batch_size=1, steps=steps)


def found(*target_ids: int) -> Found:
    hypothesis = TargetHypothesis(target_ids=list(target_ids), score=0.0, token_count=1, finished=True)
    return Found([hypothesis], timeline(5))


class Recording:
    """Takes what is found; raises for a position that it is told."""

    def __init__(self, *, broken: int | None = None) -> None:
        self.events: list[tuple[int, object]] = []
        self._broken = broken
        self.threads: set[threading.Thread] = set()

    def next(self, position: int, found: Found) -> Callable[[], None]:
        if position == self._broken:
            raise ArithmeticError("no text")
        self.threads.add(threading.current_thread())
        return lambda: self.events.append((position, found))

    def on_prefix(self, position: int, target_ids: Sequence[int]) -> None:
        self.events.append((position, target_ids))


async def make_request(
    model: LoadedModel,
    options: DecodingOptions,
    sentences: int,
    receiver: Receiver | None = None,
    pool: Executor | None = None,
) -> Request:
    searched = [model.sentence((5, 2), options) for _ in range(sentences)]
    return Request(CallContext(model=model), searched, receiver or Recording(), pool=pool)


async def test_what_threads_find_comes_in_the_order_of_delivery(model: LoadedModel, options: DecodingOptions) -> None:
    receiver = Recording()
    request = await make_request(model, options, 3, receiver)
    await asyncio.to_thread(request.report_prefix, 0, [7])
    for position in (2, 0, 1):
        await asyncio.to_thread(request.deliver, position, found(position))
    await request.done
    assert receiver.events == [(0, [7]), *((position, found(position)) for position in (2, 0, 1))]


async def test_the_first_error_is_the_answer(model: LoadedModel, options: DecodingOptions) -> None:
    request = await make_request(model, options, 1)
    request.fail(ArithmeticError("first"))
    request.fail(ArithmeticError("second"))
    request.deliver(0, found(1))
    with pytest.raises(ArithmeticError, match="first"):
        await request.done


@pytest.mark.parametrize("threads", [0, 2])
async def test_one_without_text_ends_its_own_call(model: LoadedModel, options: DecodingOptions, threads: int) -> None:
    with ThreadPoolExecutor(2) as executor:
        pool = executor if threads else None
        receiver = Recording()
        broken = await make_request(model, options, 2, Recording(broken=0), pool)
        beside = await make_request(model, options, 2, receiver, pool)
        for position in (0, 1):
            for request in (broken, beside):
                request.deliver(position, found(1))
        with pytest.raises(ArithmeticError, match="no text"):
            await broken.done
        await beside.done
    assert len(receiver.events) == 2
    assert (threading.current_thread() in receiver.threads) == (pool is None)


async def test_a_pool_that_drains_ends_a_request_as_a_drain_does(model: LoadedModel, options: DecodingOptions) -> None:
    pool = Threads(1, "draining")
    pool.shutdown()
    request = await make_request(model, options, 1, pool=pool)
    request.deliver(0, found(1))
    with pytest.raises(DrainingError):
        await request.done


async def test_a_closed_request_is_freed_without_the_collector(model: LoadedModel, options: DecodingOptions) -> None:
    request = await make_request(model, options, 2)
    known = weakref.ref(request)
    for position in range(2):
        request.deliver(position, found(position))
    await request.done
    request.close()
    del request
    assert known() is None


def test_a_result_for_an_event_loop_that_is_closed_is_dropped_with_a_warning(
    model: LoadedModel, options: DecodingOptions, caplog: pytest.LogCaptureFixture
) -> None:
    request = asyncio.run(make_request(model, options, 1))
    request.deliver(0, found(1))
    assert [record.message for record in caplog.records] == ["result dropped: the event loop is closed"]


def test_searches_are_found_by_text_and_in_the_order_of_its_sentences() -> None:
    record = CallRecord()
    # Openings of all sentences first, then what continues them.
    for number, (text, sentence) in enumerate([(0, 0), (0, 1), (2, 0), (0, 0), (0, 0), (2, 0)], start=1):
        record.found.append((text, sentence, timeline(number)))
    steps = [[(sentence, each.steps) for sentence, each in record.of_text(text)] for text in range(3)]
    assert steps == [[(0, 1), (0, 4), (0, 5), (1, 2)], [], [(0, 3), (0, 6)]]
