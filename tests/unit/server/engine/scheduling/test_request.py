from __future__ import annotations

import asyncio
import weakref
from pathlib import Path

import pytest

from xuanzang.server.engine.decoding.hypotheses import TargetHypothesis
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.call import CallContext, SentenceTimeline
from xuanzang.server.engine.scheduling.rendering import SentenceRenderer
from xuanzang.server.engine.scheduling.request import PlannedSearch, Request, SentenceListener, SentenceResult
from xuanzang.server.engine.types import DecodingOptions, FinishReason
from xuanzang.server.metrics import Metrics

TIMELINE = SentenceTimeline(
    queued_at=1.0, taken_at=2.0, encoded_at=3.0, finished_at=4.0, worker=0, batch_size=1, steps=5
)


@pytest.fixture
def model(repository: Path, metrics: Metrics) -> LoadedModel:
    return LoadedModel(repository / "small" / "1", metrics)


def result(*target_ids: int) -> SentenceResult:
    found = TargetHypothesis(target_ids=list(target_ids), score=0.0, token_count=1, finished=True)
    return SentenceResult([found], [], TIMELINE)


async def make_request(
    model: LoadedModel, options: DecodingOptions, sentences: int, listener: SentenceListener | None = None
) -> Request:
    search = PlannedSearch(model.sentence((5, 2), options), SentenceRenderer(codec=model.codec))
    return Request(CallContext(model=model), [search] * sentences, listener=listener)


async def test_results_from_other_threads_come_in_the_order_of_the_sentences(
    model: LoadedModel, options: DecodingOptions
) -> None:
    request = await make_request(model, options, 3)
    for position in (2, 0, 1):
        await asyncio.to_thread(request.deliver, position, result(position))
    assert await request.done == [result(0), result(1), result(2)]


async def test_the_first_error_is_the_answer(model: LoadedModel, options: DecodingOptions) -> None:
    request = await make_request(model, options, 1)
    request.fail(ArithmeticError("first"))
    request.fail(ArithmeticError("second"))
    request.deliver(0, result(1))
    with pytest.raises(ArithmeticError, match="first"):
        await request.done


async def test_a_closed_request_is_freed_without_the_collector(model: LoadedModel, options: DecodingOptions) -> None:
    request = await make_request(model, options, 2)
    found = weakref.ref(request)
    for position in range(2):
        request.deliver(position, result(position))
    assert await request.done == [result(0), result(1)]
    request.close()
    del request
    assert found() is None


async def test_a_sentence_is_rendered_with_the_reason_of_its_cut(model: LoadedModel, options: DecodingOptions) -> None:
    [queued] = (await make_request(model, options, 1)).sentences
    found = TargetHypothesis(target_ids=model.codec.encode_target("hello"), score=-1.0, token_count=1, finished=False)
    rendered = queued.render([found], cut=FinishReason.DEADLINE, timeline=TIMELINE)
    assert rendered.found == [found]
    assert [(h.text, h.finish_reason) for h in rendered.hypotheses] == [("hello", FinishReason.DEADLINE)]


class Recording:
    def __init__(self) -> None:
        self.events: list[object] = []

    def on_prefix(self, position: int, text: str) -> None:
        self.events.append((position, text))

    def on_result(self, position: int, result: SentenceResult) -> None:
        self.events.append((position, result))


async def test_a_listener_gets_prefixes_and_results(model: LoadedModel, options: DecodingOptions) -> None:
    listener = Recording()
    request = await make_request(model, options, 1, listener)
    target_ids = model.codec.encode_target("hello world")
    await asyncio.to_thread(request.report_prefix, 0, target_ids)
    await asyncio.to_thread(request.deliver, 0, result(7))
    [found] = await request.done
    assert listener.events == [(0, "hello world"), (0, found)]


def test_a_result_for_an_event_loop_that_is_closed_is_dropped_with_a_warning(
    model: LoadedModel, options: DecodingOptions, caplog: pytest.LogCaptureFixture
) -> None:
    request = asyncio.run(make_request(model, options, 1))
    request.deliver(0, result(1))
    assert [record.message for record in caplog.records] == ["result dropped: the event loop is closed"]
