from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from xuanzang import client as sdk
from xuanzang.translation.v1 import status_pb2
from xuanzang.translation.v1 import translation_pb2 as pb

if TYPE_CHECKING:
    from tests.unit.client.conftest import Client, Script


def answer(request: Any) -> Any:
    hypothesis = pb.Hypothesis(text=request.content.upper())
    return pb.StreamTranslateTextResponse(id=request.id, translation=pb.Translation(hypotheses=[hypothesis]))


def backwards(requests: Any, context: Any) -> Iterator[Any]:
    yield from map(answer, reversed(list(requests)))


def test_results_come_as_they_finish_with_index_and_source(client: Client, script: Script) -> None:
    script.on_stream = backwards
    results = client.translate_stream(["a", "b", "c"])
    assert [(each.index, each.source, each.translation.text) for each in results] == [
        (2, "c", "C"),
        (1, "b", "B"),
        (0, "a", "A"),
    ]


def test_ordered_results_come_in_the_order_of_the_texts(client: Client, script: Script) -> None:
    script.on_stream = backwards
    results = client.translate_stream(iter(["a", "b", "c"]), ordered=True)
    assert [(each.index, each.translation.text) for each in results] == [(0, "A"), (1, "B"), (2, "C")]


def test_equal_texts_have_a_result_each(client: Client, script: Script) -> None:
    script.on_stream = backwards
    assert [each.index for each in client.translate_stream(["a"] * 4)] == [3, 2, 1, 0]


def test_options_are_sent_with_every_text(client: Client, script: Script) -> None:
    client.translate_stream(["a", "b"], source_language="zh", target_language="en", model="m", beam_size=2)
    assert [each.content for each in script.requests] == ["a", "b"]
    for each in script.requests:
        assert each.settings == pb.TranslationSettings(
            source_language_code="zh", target_language_code="en", model="m", options=pb.DecodingOptions(beam_size=2)
        )


def test_a_refused_text_is_an_error_result_and_the_stream_continues(client: Client, script: Script) -> None:
    def refuse_b(requests: Any, context: Any) -> Iterator[Any]:
        for request in requests:
            if request.content == "b":
                error = status_pb2.Status(code=3, message="content is too long")
                yield pb.StreamTranslateTextResponse(id=request.id, error=error)
            else:
                yield answer(request)

    script.on_stream = refuse_b
    first, second, third = client.translate_stream(["a", "b", "c"], ordered=True)
    assert (first.error, third.error) == (None, None)
    assert isinstance(second.error, sdk.InvalidRequestError)
    assert second.source == "b"
    with pytest.raises(sdk.InvalidRequestError, match="content is too long"):
        _ = second.translation


@pytest.mark.parametrize("ordered", [False, True])
def test_a_text_that_cannot_be_encoded_is_an_error_result(client: Client, ordered: bool) -> None:
    results = client.translate_stream(["a", "\ud800", "c", "\ud801"], ordered=ordered)
    assert sorted((each.index, each.error is None) for each in results) == [
        (0, True),
        (1, False),
        (2, True),
        (3, False),
    ]


def test_no_texts_give_no_results(client: Client) -> None:
    assert client.translate_stream([]) == []


@pytest.mark.parametrize("ordered", [False, True])
def test_many_texts_pass_with_a_small_max_in_flight(client: Client, ordered: bool) -> None:
    texts = [str(number) for number in range(500)]
    results = client.translate_stream(texts, ordered=ordered, max_in_flight=3)
    assert sorted((each.index, each.translation.text) for each in results) == list(enumerate(texts))


def test_texts_are_read_ahead_only_up_to_max_in_flight(script: Script) -> None:
    script.on_stream = backwards  # answers nothing before the end of the texts
    read = []
    window_is_full = threading.Event()

    def texts() -> Iterator[Any]:
        for number in range(100):
            read.append(number)
            if number == 8:
                window_is_full.set()
            yield "a"

    with sdk.TranslationClient(script.address) as client, pytest.raises(sdk.DeadlineExceededError):
        list(client.translate_stream(texts(), max_in_flight=8, timeout=0.5))
    assert window_is_full.is_set()
    assert len(read) == 9  # the ninth waits for room


ANY_EXCEPTION = pytest.mark.parametrize("exception", [LookupError, KeyboardInterrupt, asyncio.CancelledError])


@ANY_EXCEPTION
def test_an_exception_of_the_texts_is_raised_after_earlier_results(
    script: Script, exception: type[BaseException]
) -> None:
    def texts() -> Iterator[Any]:
        yield "a"
        yield "b"
        raise exception("mine")

    with sdk.TranslationClient(script.address) as client:
        stream = client.translate_stream(texts())
        assert [next(stream).source, next(stream).source] == ["a", "b"]
        with pytest.raises(exception, match="mine"):
            next(stream)


@ANY_EXCEPTION
async def test_an_exception_of_asynchronous_texts_is_raised_after_earlier_results(
    script: Script, exception: type[BaseException]
) -> None:
    async def texts() -> AsyncIterator[Any]:
        yield "a"
        await asyncio.sleep(0)
        raise exception("mine")

    async with sdk.AsyncTranslationClient(script.address) as client, asyncio.timeout(30):
        stream = client.translate_stream(texts())
        assert (await anext(stream)).source == "a"
        with pytest.raises(exception, match="mine"):
            await anext(stream)


def test_a_blocking_stream_goes_on_after_the_event_loop_of_its_beginning(script: Script) -> None:
    async def begin(client: sdk.TranslationClient) -> tuple[Iterator[Any], Any]:
        stream = client.translate_stream(["a"] * 40)
        return stream, next(stream)

    with sdk.TranslationClient(script.address) as client:
        stream, _ = asyncio.run(begin(client))
        assert len(list(stream)) == 39


def test_a_blocking_stream_refuses_asynchronous_texts(script: Script) -> None:
    async def texts() -> AsyncIterator[str]:
        await asyncio.sleep(0)
        yield "a"

    with sdk.TranslationClient(script.address) as client, pytest.raises(TypeError, match="not iterable"):
        list(client.translate_stream(texts()))  # type: ignore[arg-type]


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
    def babble(requests: Any, context: Any) -> Iterator[Any]:
        yield pb.StreamTranslateTextResponse(id="77", translation=pb.Translation(hypotheses=[pb.Hypothesis()]))

    script.on_stream = babble
    with pytest.raises(sdk.ServerFaultError, match="'77'"):
        client.translate_stream(["a"])


def test_a_stream_that_times_out_is_cancelled_on_the_server(client: Client, script: Script) -> None:
    ended = threading.Event()

    def never(requests: Any, context: Any) -> Iterator[Any]:
        context.add_callback(ended.set)
        ended.wait(20)
        yield from ()

    script.on_stream = never
    with pytest.raises(sdk.DeadlineExceededError, match=r"no answer within 0\.2 s"):
        client.translate_stream(["a"], timeout=0.2)
    assert ended.wait(10)


def test_waiting_for_texts_does_not_time_out(script: Script) -> None:
    timeout = 0.1
    waited = threading.Event()

    def slow() -> Iterator[Any]:
        yield "a"
        waited.wait(5 * timeout)
        yield "b"

    with sdk.TranslationClient(script.address) as client:
        results = list(client.translate_stream(slow(), timeout=timeout))
    assert [each.translation.text for each in results] == ["A", "B"]


async def test_waiting_for_asynchronous_texts_does_not_time_out(script: Script) -> None:
    timeout = 0.1

    async def slow() -> AsyncIterator[Any]:
        yield "a"
        await asyncio.sleep(5 * timeout)
        yield "b"

    async with sdk.AsyncTranslationClient(script.address) as client:
        results = [each.translation.text async for each in client.translate_stream(slow(), timeout=timeout)]
    assert results == ["A", "B"]


async def test_a_text_sent_during_a_wait_starts_the_timeout(script: Script) -> None:
    ended = threading.Event()

    def only_the_first(requests: Any, context: Any) -> Iterator[Any]:
        context.add_callback(ended.set)
        yield answer(next(iter(requests)))
        ended.wait(20)

    async def texts() -> AsyncIterator[Any]:
        yield "a"
        await asyncio.sleep(0.3)
        yield "b"

    script.on_stream = only_the_first
    async with sdk.AsyncTranslationClient(script.address) as client:
        with pytest.raises(sdk.DeadlineExceededError):
            _ = [each async for each in client.translate_stream(texts(), timeout=0.2)]
    assert ended.wait(10)


def until_cancelled(ended: threading.Event) -> Any:
    """Answer texts until the client cancels."""

    def respond(requests: Any, context: Any) -> Iterator[Any]:
        context.add_callback(ended.set)
        for request in requests:
            yield answer(request)

    return respond


def test_leaving_a_stream_cancels_it(script: Script) -> None:
    ended = threading.Event()
    script.on_stream = until_cancelled(ended)
    forever = iter(lambda: "a", None)
    with sdk.TranslationClient(script.address) as client:
        for result in client.translate_stream(forever, max_in_flight=2):
            assert result.translation.text == "A"
            break
        assert ended.wait(10)


async def test_leaving_an_asynchronous_stream_cancels_it(script: Script) -> None:
    ended = threading.Event()
    script.on_stream = until_cancelled(ended)
    forever = iter(lambda: "a", None)
    async with sdk.AsyncTranslationClient(script.address) as client:
        stream = client.translate_stream(forever, max_in_flight=2)
        assert (await anext(stream)).translation.text == "A"
        await stream.aclose()
        assert await asyncio.to_thread(ended.wait, 10)


def never_answered(script: Script) -> tuple[threading.Event, threading.Event]:
    """Let no call be answered; return the events of the beginning and of the end of one."""
    begun, ended = threading.Event(), threading.Event()

    def never(request: Any, context: Any) -> Any:
        context.add_callback(ended.set)
        begun.set()
        ended.wait(20)
        return pb.TranslateTextResponse()

    script.on_translate = never
    return begun, ended


async def test_cancelling_the_task_cancels_the_call(script: Script) -> None:
    begun, ended = never_answered(script)
    async with sdk.AsyncTranslationClient(script.address) as client:
        task = asyncio.create_task(client.translate_one("a"))
        assert await asyncio.to_thread(begun.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(ended.wait, 10)


def test_closing_the_client_ends_its_calls(script: Script) -> None:
    begun, ended = never_answered(script)
    client = sdk.TranslationClient(script.address)

    def close_once_begun() -> None:
        begun.wait(10)
        client.close()

    closing = threading.Thread(target=close_once_begun)
    closing.start()
    with pytest.raises(sdk.CallCancelledError):
        client.translate_one("a")
    closing.join()
    assert ended.wait(10)


async def test_closing_the_asynchronous_client_ends_its_calls(script: Script) -> None:
    begun, ended = never_answered(script)
    client = sdk.AsyncTranslationClient(script.address)
    task = asyncio.create_task(client.translate_one("a"))
    assert await asyncio.to_thread(begun.wait, 10)
    await client.close()
    with pytest.raises(sdk.CallCancelledError):
        await task
    assert await asyncio.to_thread(ended.wait, 10)


def test_a_stream_takes_no_lone_text(client: Client) -> None:
    with pytest.raises(TypeError, match="not a lone text"):
        client.translate_stream("abc")


def test_max_in_flight_must_be_positive(client: Client) -> None:
    with pytest.raises(ValueError, match="max_in_flight must be at least 1"):
        client.translate_stream(["a"], max_in_flight=0)
