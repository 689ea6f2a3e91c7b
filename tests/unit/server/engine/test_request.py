from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from xuanzang.server.engine.decoding.hypotheses import TargetHypothesis
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.request import Listener, Request, Terms
from xuanzang.server.engine.types import DecodingOptions, FinishReason


@pytest.fixture
def model(repository: Path) -> LoadedModel:
    return LoadedModel(repository / "small" / "1")


def found(*target_ids: int) -> list[TargetHypothesis]:
    return [TargetHypothesis(target_ids=list(target_ids), score=0.0, token_count=1, finished=True)]


def rendered(position: int, hypotheses: Sequence[TargetHypothesis], cut: FinishReason) -> tuple[int, list[int], str]:
    return position, hypotheses[0].target_ids, cut.value


async def make_request(
    model: LoadedModel,
    options: DecodingOptions,
    sentences: int,
    listener: Listener[tuple[int, list[int], str]] | None = None,
) -> Request[tuple[int, list[int], str]]:
    sentence = model.sentence((5, 2), options)
    return Request(Terms(model=model, caller=""), [sentence] * sentences, render=rendered, listener=listener)


async def test_results_from_other_threads_come_in_the_order_of_the_sentences(
    model: LoadedModel, options: DecodingOptions
) -> None:
    request = await make_request(model, options, 3)
    for position in (2, 0, 1):
        await asyncio.to_thread(request.deliver, position, found(position), cut=FinishReason.MAX_LENGTH)
    assert await request.done == [(0, [0], "max_length"), (1, [1], "max_length"), (2, [2], "max_length")]


async def test_the_first_error_is_the_answer_and_what_comes_later_changes_nothing(
    model: LoadedModel, options: DecodingOptions
) -> None:
    request = await make_request(model, options, 1)
    request.fail(ArithmeticError("first"))
    request.fail(ArithmeticError("second"))
    request.deliver(0, found(1), cut=FinishReason.MAX_LENGTH)
    with pytest.raises(ArithmeticError, match="first"):
        await request.done


class Listening:
    def __init__(self) -> None:
        self.heard: list[object] = []

    def begun(self, position: int, text: str) -> None:
        self.heard.append((position, text))

    def finished(self, position: int, result: tuple[int, list[int], str]) -> None:
        self.heard.append((position, result))


async def test_a_listener_hears_of_beginnings_and_results(model: LoadedModel, options: DecodingOptions) -> None:
    listener = Listening()
    request = await make_request(model, options, 1, listener)
    target_ids = model.text.encode_target("hello world")
    await asyncio.to_thread(request.tell, 0, target_ids)
    await asyncio.to_thread(request.deliver, 0, found(7), cut=FinishReason.DEADLINE)
    [result] = await request.done
    assert listener.heard == [(0, "hello world"), (0, result)]


def test_a_result_for_a_loop_that_is_closed_is_dropped_with_a_warning(
    model: LoadedModel, options: DecodingOptions, caplog: pytest.LogCaptureFixture
) -> None:
    request = asyncio.run(make_request(model, options, 1))
    request.deliver(0, found(1), cut=FinishReason.MAX_LENGTH)
    assert [record.message for record in caplog.records] == ["result dropped: the event loop is closed"]
