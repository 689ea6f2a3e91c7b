from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from tests.unit.client.conftest import Client, Script, Silent, answer, finished

from xuanzang import client as sdk
from xuanzang.translation.v1 import status_pb2
from xuanzang.translation.v1 import translation_pb2 as pb

BOTH = pytest.mark.parametrize("kind", [sdk.TranslationClient, sdk.AsyncTranslationClient])
EITHER_ORDER = pytest.mark.parametrize("ordered", [False, True])


def backwards(requests: Any, context: Any) -> Iterator[Any]:
    yield from map(answer, reversed(list(requests)))


@EITHER_ORDER
def test_results_come_as_they_finish_or_in_the_order_of_the_texts(
    client: Client, script: Script, ordered: bool
) -> None:
    script.on_stream = backwards
    results = client.translate_stream(iter(["a", "b", "c"]), ordered=ordered)
    found = [(each.index, each.source, each.translation.text) for each in results]
    assert found == [(0, "a", "A"), (1, "b", "B"), (2, "c", "C")][:: 1 if ordered else -1]


def test_equal_texts_have_a_result_each(client: Client, script: Script) -> None:
    script.on_stream = backwards
    assert [each.index for each in client.translate_stream(["a"] * 4)] == [3, 2, 1, 0]


def test_a_refused_text_is_an_error_result_and_the_stream_continues(client: Client, script: Script) -> None:
    error = status_pb2.Status(code=3, message="content is too long")
    script.on_stream = lambda requests, _: (
        pb.StreamTranslateTextResponse(id=each.id, error=error) if each.content == "b" else answer(each)
        for each in requests
    )
    first, second, third = client.translate_stream(["a", "b", "c"], ordered=True)
    assert (first.error, third.error, second.source) == (None, None, "b")
    assert isinstance(second.error, sdk.InvalidRequestError)
    assert second.error.request_id == script.metadata[0]["x-request-id"]
    with pytest.raises(sdk.InvalidRequestError, match="content is too long"):
        _ = second.translation


@EITHER_ORDER
def test_a_text_that_cannot_be_encoded_is_an_error_result(client: Client, ordered: bool) -> None:
    results = client.translate_stream(["a", "\ud800", "c", "\ud801"], ordered=ordered)
    assert {each.index: each.error is None for each in results} == {0: True, 1: False, 2: True, 3: False}


def test_no_texts_give_no_results(client: Client) -> None:
    assert client.translate_stream([]) == []


@EITHER_ORDER
def test_many_texts_pass_with_a_small_max_in_flight(client: Client, ordered: bool) -> None:
    texts = [str(number) for number in range(300)]
    results = client.translate_stream(texts, ordered=ordered, max_in_flight=3)
    assert sorted((each.index, each.translation.text) for each in results) == list(enumerate(texts))


def test_texts_are_read_ahead_only_up_to_max_in_flight(script: Script) -> None:
    script.on_stream = backwards  # answers nothing before the end of the texts
    read: list[int] = []
    with sdk.TranslationClient(script.address) as client:
        # The time may be over before a busy client has read as many.
        for timeout in (0.5, 10):
            read.clear()
            texts = (read.append(number) or "a" for number in range(100))  # type: ignore[func-returns-value]
            with pytest.raises(sdk.DeadlineExceededError):
                list(client.translate_stream(texts, max_in_flight=8, timeout=timeout))
            if len(read) >= 9:
                break
    assert len(read) == 9  # the ninth waits for room


def texts_of(kind: Any, *texts: str, pause: float = 0.0, last: type[BaseException] | None = None) -> Any:
    """Return texts with pauses between them, and an exception at last; those for asyncio are asynchronous."""

    async def later() -> AsyncIterator[str]:
        for number, text in enumerate(texts):
            await asyncio.sleep(pause if number else 0)
            yield text
        if last:
            raise last("mine")

    def now() -> Iterator[str]:
        for number, text in enumerate(texts):
            threading.Event().wait(pause if number else 0)
            yield text
        if last:
            raise last("mine")

    return later() if kind is sdk.AsyncTranslationClient else now()


async def next_of(stream: Any) -> Any:
    return await anext(stream) if isinstance(stream, AsyncIterator) else next(stream)


@BOTH
@pytest.mark.parametrize("exception", [LookupError, KeyboardInterrupt, asyncio.CancelledError])
async def test_an_exception_of_the_texts_is_raised_after_earlier_results(
    script: Script, kind: Any, exception: type[BaseException]
) -> None:
    client = kind(script.address)
    async with asyncio.timeout(30):
        stream = client.translate_stream(texts_of(kind, "a", "b", last=exception))
        assert [(await next_of(stream)).source, (await next_of(stream)).source] == ["a", "b"]
        with pytest.raises(exception, match="mine"):
            await next_of(stream)
    await finished(client.close())


def test_a_blocking_stream_goes_on_after_the_event_loop_of_its_beginning(script: Script) -> None:
    async def begin(client: sdk.TranslationClient) -> tuple[Iterator[Any], Any]:
        stream = client.translate_stream(["a"] * 40)
        return stream, next(stream)

    with sdk.TranslationClient(script.address) as client:
        stream, _ = asyncio.run(begin(client))
        assert len(list(stream)) == 39


def test_a_blocking_stream_refuses_asynchronous_texts(script: Script) -> None:
    texts = texts_of(sdk.AsyncTranslationClient, "a")
    with sdk.TranslationClient(script.address) as client, pytest.raises(TypeError, match="not iterable"):
        list(client.translate_stream(texts))


def test_a_text_may_depend_on_the_answer_before_it(script: Script) -> None:
    answers: list[str] = []
    said = threading.Semaphore(0)

    def conversation() -> Iterator[Any]:
        yield "a"
        said.acquire(timeout=20)
        yield answers[0] + "b"

    with sdk.TranslationClient(script.address) as client:
        for result in client.translate_stream(conversation()):
            answers.append(result.translation.text)
            said.release()
    assert answers == ["A", "AB"]


@pytest.mark.parametrize("end", ["unanswered", "unread"])
def test_a_stream_ended_early_by_the_server_is_an_error(client: Client, script: Script, end: str) -> None:
    def give_up(requests: Any, context: Any) -> Iterator[Any]:
        request = next(iter(requests))
        if end == "unread":
            yield answer(request)

    script.on_stream = give_up
    with pytest.raises(sdk.TranslationError, match="the server ended the stream"):
        client.translate_stream((str(number) for number in range(1000)), max_in_flight=2)


def test_an_answer_with_an_unknown_id_is_an_error(client: Client, script: Script) -> None:
    unknown = pb.StreamTranslateTextResponse(id="77", translation=pb.Translation(hypotheses=[pb.Hypothesis()]))
    script.on_stream = lambda requests, context: iter([unknown])
    with pytest.raises(sdk.ServerFaultError, match="'77'"):
        client.translate_stream(["a"])


def test_a_stream_that_times_out_is_cancelled_on_the_server(client: Client, script: Script) -> None:
    silent = Silent(script)
    # The time of a call may be over before a busy server begins it.
    for timeout in (0.2, 5):
        with pytest.raises(sdk.DeadlineExceededError, match=f"no answer within {timeout} s"):
            client.translate_stream(["a"], timeout=timeout)
        if silent.ended.wait(5):
            return
    raise AssertionError("the server was not told")


@BOTH
async def test_waiting_for_texts_does_not_time_out(script: Script, kind: Any) -> None:
    client = kind(script.address)
    stream = client.translate_stream(texts_of(kind, "a", "b", pause=2.5), timeout=2.0)
    assert [each.translation.text for each in await finished(stream)] == ["A", "B"]
    await finished(client.close())


async def test_a_text_sent_during_a_wait_starts_the_timeout(script: Script) -> None:
    ended = threading.Event()

    def only_the_first(requests: Any, context: Any) -> Iterator[Any]:
        context.add_callback(ended.set)
        yield answer(next(iter(requests)))
        ended.wait(20)

    script.on_stream = only_the_first
    async with sdk.AsyncTranslationClient(script.address) as client:
        with pytest.raises(sdk.DeadlineExceededError):
            await finished(client.translate_stream(texts_of(type(client), "a", "b", pause=2.5), timeout=2.0))
    assert ended.wait(120)


@BOTH
async def test_leaving_a_stream_cancels_it(script: Script, kind: Any) -> None:
    ended = threading.Event()

    def until_cancelled(requests: Any, context: Any) -> Iterator[Any]:
        context.add_callback(ended.set)
        yield from map(answer, requests)

    script.on_stream = until_cancelled
    client = kind(script.address)
    stream = client.translate_stream(iter(lambda: "a", None), max_in_flight=2)
    assert (await next_of(stream)).translation.text == "A"
    if isinstance(client, sdk.AsyncTranslationClient):
        await stream.aclose()
    else:
        del stream
    assert await asyncio.to_thread(ended.wait, 10)
    await finished(client.close())


async def test_cancelling_the_task_cancels_the_call(script: Script) -> None:
    silent = Silent(script)
    async with sdk.AsyncTranslationClient(script.address) as client:
        task = asyncio.create_task(client.translate_one("a"))
        assert await asyncio.to_thread(silent.begun.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(silent.ended.wait, 10)


@BOTH
async def test_closing_the_client_ends_its_calls(script: Script, kind: Any) -> None:
    silent, client = Silent(script), kind(script.address)
    called = (
        client.translate_one("a") if kind is not sdk.TranslationClient else asyncio.to_thread(client.translate_one, "a")
    )
    call = asyncio.ensure_future(called)
    assert await asyncio.to_thread(silent.begun.wait, 10)
    await finished(client.close())
    with pytest.raises(sdk.CallCancelledError):
        await call
    assert await asyncio.to_thread(silent.ended.wait, 10)


def test_a_lone_text_and_no_room_are_refused(client: Client) -> None:
    with pytest.raises(TypeError, match="not a lone text"):
        client.translate_stream("abc")
    with pytest.raises(ValueError, match="max_in_flight must be at least 1"):
        client.translate_stream(["a"], max_in_flight=0)
