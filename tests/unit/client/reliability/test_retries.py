from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from xuanzang import client as sdk
from xuanzang.translation.v1 import translation_pb2 as pb

if TYPE_CHECKING:
    from tests.unit.client.conftest import Client, Script


def fail_first(times: int, code: grpc.StatusCode, metadata: Any = ()) -> Any:
    """Refuse this many calls, then translate."""
    left = iter(range(times))

    def respond(request: Any, context: Any) -> Any:
        if next(left, None) is not None:
            context.set_trailing_metadata(metadata)
            context.abort(code, "not now")
        return pb.TranslateTextResponse(translations=[pb.Translation(hypotheses=[pb.Hypothesis(text="late")])])

    return respond


@pytest.mark.parametrize(
    "code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.CANCELLED]
)
def test_calls_refused_before_any_work_are_retried(client: Client, script: Script, code: grpc.StatusCode) -> None:
    script.on_translate = fail_first(2, code, metadata=(("grpc-retry-pushback-ms", "1"),))
    assert client.translate_one("a").text == "late"
    assert len(script.requests) == 3


@pytest.mark.parametrize("code", [grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.INVALID_ARGUMENT])
def test_other_failures_are_not_retried(client: Client, script: Script, code: grpc.StatusCode) -> None:
    script.on_translate = fail_first(1, code)
    with pytest.raises(sdk.TranslationError):
        client.translate_one("a")
    assert len(script.requests) == 1


def test_a_call_without_throttle_has_at_most_five_attempts(script: Script) -> None:
    pushback = (("grpc-retry-pushback-ms", "1"),)
    script.on_translate = fail_first(100, grpc.StatusCode.RESOURCE_EXHAUSTED, metadata=pushback)
    with sdk.TranslationClient(script.address, throttle=False) as client, pytest.raises(sdk.OverloadedError):
        client.translate_one("a")
    assert len(script.requests) == 5


def test_the_retry_delay_of_the_server_counts_against_the_timeout(client: Client, script: Script) -> None:
    # An hour: with the client's own backoff of a tenth of a second there would be more than one call in a second.
    pushback = (("grpc-retry-pushback-ms", "3600000"),)
    script.on_translate = fail_first(100, grpc.StatusCode.RESOURCE_EXHAUSTED, metadata=pushback)
    with pytest.raises(sdk.TranslationError):
        client.translate_one("a", timeout=1.0)
    assert len(script.requests) == 1


def test_a_large_request_is_retried_too(client: Client, script: Script) -> None:
    script.on_translate = fail_first(1, grpc.StatusCode.UNAVAILABLE)
    text = "a" * (2 * 1024 * 1024)  # gRPC's own retry buffer ends at a quarter of a megabyte
    assert client.translate_one(text).text == "late"
    assert [len(request.contents[0]) for request in script.requests] == [len(text)] * 2


def test_a_stream_refused_before_its_first_answer_is_reopened(client: Client, script: Script) -> None:
    refusals = iter(range(2))
    echo = script.on_stream

    def respond(requests: Any, context: Any) -> Iterator[Any]:
        if next(refusals, None) is not None:
            context.set_trailing_metadata((("grpc-retry-pushback-ms", "1"),))
            context.abort(grpc.StatusCode.UNAVAILABLE, "not now")
        yield from echo(requests, context)

    script.on_stream = respond
    assert [each.translation.text for each in client.translate_stream(["a", "b"])] == ["A", "B"]


def test_a_call_that_times_out_is_cancelled_on_the_server(client: Client, script: Script) -> None:
    ended = threading.Event()

    def never(request: Any, context: Any) -> Any:
        context.add_callback(ended.set)
        ended.wait(20)
        return pb.TranslateTextResponse()

    script.on_translate = never
    # The time of a call may be over before a busy server begins it.
    for timeout in (0.2, 5):
        with pytest.raises(sdk.DeadlineExceededError) as caught:
            client.translate_one("a", timeout=timeout)
        assert caught.value.code is sdk.StatusCode.DEADLINE_EXCEEDED
        if ended.wait(5):
            return
    raise AssertionError("the server was not told")


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan")])
def test_a_timeout_must_be_positive_and_finite(client: Client, client_type: type[Client], timeout: float) -> None:
    with pytest.raises(ValueError, match="timeout must be a positive number of seconds"):
        client.translate_one("a", timeout=timeout)


def test_overload_without_a_delay_is_not_retried(client: Client, script: Script) -> None:
    script.on_translate = fail_first(1, grpc.StatusCode.RESOURCE_EXHAUSTED)
    with pytest.raises(sdk.OverloadedError):
        client.translate_one("a")
    assert len(script.requests) == 1


def test_a_stopping_server_is_left_for_another(client_type: type[Client], serve: Callable[..., Script]) -> None:
    stopping, other = serve(), serve()
    stopping.on_translate = fail_first(100, grpc.StatusCode.UNAVAILABLE)
    client = client_type([stopping.address, other.address])
    assert [client.translate_one("a").text for _ in range(4)] == ["A"] * 4
    assert len(other.requests) == 4


@pytest.mark.parametrize("code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED])
def test_a_busy_starting_or_stopping_server_is_asked_again_as_long_as_there_is_time(
    client: Client, script: Script, code: grpc.StatusCode
) -> None:
    times = 8
    script.on_translate = fail_first(times, code, metadata=(("grpc-retry-pushback-ms", "1"),))
    assert client.translate_one("a").text == "late"
    assert len(script.requests) == times + 1


def test_a_call_that_one_server_never_answers_is_answered_by_another(
    client_type: type[Client], serve: Callable[..., Script]
) -> None:
    silent, other = serve(), serve()
    cancelled = threading.Event()

    def never(request: Any, context: Any) -> Any:
        context.add_callback(cancelled.set)
        cancelled.wait(30)
        return pb.TranslateTextResponse()

    silent.on_translate = never
    assert client_type([silent.address, other.address]).translate_one("a", timeout=10).text == "A"
    assert (len(silent.requests), len(other.requests)) == (1, 1)
    assert cancelled.wait(10)


def stop_after_two(script: Script, received: Callable[[Any], Iterator[Any]] = iter) -> None:
    """Let a server answer two of the texts of a stream, and stop."""
    answer = script.on_stream

    def stop(requests: Any, context: Any) -> Iterator[Any]:
        yield from itertools.islice(answer(received(requests), context), 2)
        context.abort(grpc.StatusCode.UNAVAILABLE, "stopping")

    script.on_stream = stop


def test_texts_without_an_answer_are_sent_once_more_to_another_address(
    client_type: type[Client], serve: Callable[..., Script]
) -> None:
    stopping, other = serve(), serve()
    # It stops once no message is on its way.
    stop_after_two(stopping, lambda requests: iter(list(requests)))
    results = client_type([stopping.address, other.address]).translate_stream(iter("abcde"), max_in_flight=5)
    assert [(each.index, each.translation.text) for each in results] == list(enumerate("ABCDE"))
    # When a stream has ended, grpc.aio drops the answers that have not been read: they are asked for again.
    assert "".join(request.content for request in other.requests) in ("cde", "bcde", "abcde")


def test_a_server_that_stops_while_texts_are_sent_costs_no_answer(
    client_type: type[Client], serve: Callable[..., Script]
) -> None:
    stopping, other = serve(), serve()
    stop_after_two(stopping)
    texts = [str(number) for number in range(50)]
    results = client_type([stopping.address, other.address]).translate_stream(iter(texts), max_in_flight=5)
    assert [(each.index, each.translation.text) for each in results] == list(enumerate(texts))
    sent = [request.content for request in other.requests]
    assert sent in (texts[2:], texts[1:], texts)


def test_a_text_that_breaks_every_connection_is_an_error_and_the_others_go_on(client: Client, script: Script) -> None:
    answer = script.on_stream

    def break_after_b(requests: Any, context: Any) -> Iterator[Any]:
        has_b = False
        for request in requests:
            if request.content == "b":
                has_b = True
                continue
            yield from answer(iter([request]), context)
            if has_b:
                context.abort(grpc.StatusCode.CANCELLED, "broken")

    script.on_stream = break_after_b
    results = client.translate_stream(list("bcdefg"), max_in_flight=2)
    assert [each.source for each in results if isinstance(each.error, sdk.ServerUnavailableError)] == ["b"]
    assert sorted(each.translation.text for each in results if each.error is None) == list("CDEFG")


def test_a_stream_whose_connections_break_without_any_answer_is_given_up(client: Client, script: Script) -> None:
    def break_at_once(requests: Any, context: Any) -> Iterator[Any]:
        yield from ()
        context.abort(grpc.StatusCode.CANCELLED, "broken")

    script.on_stream = break_at_once
    with pytest.raises(sdk.CallCancelledError, match="broken"):
        client.translate_stream(["a"])
    assert len(script.metadata) == 3
