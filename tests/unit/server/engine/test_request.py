from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from xuanzang.server.engine.model import LoadedModel
from xuanzang.server.engine.request import Request
from xuanzang.server.engine.values import DecodingOptions, FinishReason, Hypothesis


@pytest.fixture
def model(repository: Path) -> LoadedModel:
    return LoadedModel(repository / "small" / "1")


def hypothesis(text: str) -> Hypothesis:
    return Hypothesis(text=text, score=0.0, token_count=1, finish_reason=FinishReason.END_OF_SENTENCE)


async def make_request(model: LoadedModel, options: DecodingOptions, sentences: int) -> Request:
    return Request(model, [model.sentence((5, 2), options)] * sentences)


async def test_results_from_other_threads_come_in_the_order_of_the_sentences(
    model: LoadedModel, options: DecodingOptions
) -> None:
    request = await make_request(model, options, 3)
    for position in (2, 0, 1):
        await asyncio.to_thread(request.deliver, position, [hypothesis(str(position))])
    assert [result[0].text for result in await request.done] == ["0", "1", "2"]


async def test_the_first_error_is_the_answer_and_what_comes_later_changes_nothing(
    model: LoadedModel, options: DecodingOptions
) -> None:
    request = await make_request(model, options, 1)
    request.fail(ArithmeticError("first"))
    request.fail(ArithmeticError("second"))
    request.deliver(0, [hypothesis("late")])
    with pytest.raises(ArithmeticError, match="first"):
        await request.done


def test_a_result_for_a_loop_that_is_closed_is_dropped_with_a_warning(
    model: LoadedModel, options: DecodingOptions, caplog: pytest.LogCaptureFixture
) -> None:
    request = asyncio.run(make_request(model, options, 1))
    request.deliver(0, [hypothesis("late")])
    assert [record.message for record in caplog.records] == ["result dropped: the event loop is closed"]
