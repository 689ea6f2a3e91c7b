from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from tests.unit.client.conftest import Client, Script, Serve, Silent, aborting, refusing

from xuanzang import client as sdk
from xuanzang.client._methods import core as methods
from xuanzang.client._reliability.tries import Method
from xuanzang.translation.v1 import translation_pb2 as pb

UNAVAILABLE, EXHAUSTED = grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED
AN_HOUR = "3600000"


@pytest.mark.parametrize(("code", "times"), [(UNAVAILABLE, 5), (EXHAUSTED, 5), (grpc.StatusCode.CANCELLED, 2)], ids=str)
def test_calls_refused_before_any_work_are_retried(
    client: Client, script: Script, code: grpc.StatusCode, times: int
) -> None:
    script.on_translate = refusing(times, code)
    assert client.translate_one("a").text == "A"
    assert len(script.requests) == times + 1


@pytest.mark.parametrize(
    ("code", "pushback", "error"),
    [
        (grpc.StatusCode.INTERNAL, "1", sdk.ServerFaultError),
        (grpc.StatusCode.UNKNOWN, "1", sdk.ServerFaultError),
        (grpc.StatusCode.INVALID_ARGUMENT, "1", sdk.InvalidRequestError),
        (EXHAUSTED, "", sdk.OverloadedError),
        # Delays of the client's own would allow more than one call.
        (EXHAUSTED, AN_HOUR, sdk.OverloadedError),
    ],
)
def test_other_failures_are_not_retried(
    client: Client, script: Script, code: grpc.StatusCode, pushback: str, error: type[Exception]
) -> None:
    script.on_translate = refusing(100, code, pushback=pushback)
    with pytest.raises(error):
        client.translate_one("a")
    assert len(script.requests) == 1


def test_a_call_without_throttle_has_at_most_five_attempts(script: Script) -> None:
    script.on_translate = refusing(100, EXHAUSTED)
    with sdk.TranslationClient(script.address, throttle=False) as client, pytest.raises(sdk.OverloadedError):
        client.translate_one("a")
    assert len(script.requests) == 5


def test_a_large_request_is_retried_too(client: Client, script: Script) -> None:
    script.on_translate = refusing(1, UNAVAILABLE)
    text = "a" * (2 * 1024 * 1024)  # gRPC's own retry buffer ends at a quarter of a megabyte
    assert client.translate_one(text).text == text.upper()
    assert [len(request.contents[0]) for request in script.requests] == [len(text)] * 2


@pytest.mark.parametrize("method", ["translate_stream", "translate_progressively"])
def test_a_stream_refused_before_its_first_answer_is_reopened(client: Client, script: Script, method: str) -> None:
    script.on_stream, script.on_progressive = (
        refusing(2, UNAVAILABLE, answer) for answer in (script.on_stream, script.on_progressive)
    )
    assert len(getattr(client, method)("ab" if method == "translate_progressively" else ["a", "b"])) >= 2
    assert len(script.metadata) == 3


def test_a_call_that_times_out_is_cancelled_on_the_server(client: Client, script: Script) -> None:
    silent = Silent(script)
    # The time of a call may be over before a busy server begins it.
    for timeout in (0.2, 5):
        with pytest.raises(sdk.DeadlineExceededError) as caught:
            client.translate_one("a", timeout=timeout)
        assert caught.value.code is sdk.StatusCode.DEADLINE_EXCEEDED
        if silent.ended.wait(5):
            return
    raise AssertionError("the server was not told")


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan")])
def test_a_timeout_must_be_positive_and_finite(client: Client, timeout: float) -> None:
    with pytest.raises(ValueError, match="timeout must be a positive number of seconds"):
        client.translate_one("a", timeout=timeout)


def test_a_stopping_server_is_left_for_another(client_type: type[Client], serve: Serve) -> None:
    stopping, other = serve(), serve()
    stopping.on_translate = refusing(100, UNAVAILABLE)
    client = client_type([stopping.address, other.address])
    assert [client.translate_one("a").text for _ in range(4)] == ["A"] * 4
    assert len(other.requests) == 4


def test_a_call_that_one_server_never_answers_is_answered_by_another(client_type: type[Client], serve: Serve) -> None:
    first, other = serve(), serve()
    silent = Silent(first)
    assert client_type([first.address, other.address]).translate_one("a", timeout=4).text == "A"
    assert (len(first.requests), len(other.requests)) == (1, 1)
    assert silent.ended.wait(120)


def stop_after_two(script: Script, received: Callable[[Any], Iterator[Any]] = iter) -> None:
    """Let a server answer two of the texts of a stream, and stop."""
    answer = script.on_stream

    def stop(requests: Any, context: Any) -> Iterator[Any]:
        yield from itertools.islice(answer(received(requests), context), 2)
        context.abort(grpc.StatusCode.UNAVAILABLE, "stopping")

    script.on_stream = stop


def test_texts_without_an_answer_are_sent_once_more_to_another_address(client_type: type[Client], serve: Serve) -> None:
    stopping, other = serve(), serve()
    # It stops once no message is on its way.
    stop_after_two(stopping, lambda requests: iter(list(requests)))
    results = client_type([stopping.address, other.address]).translate_stream(iter("abcde"), max_in_flight=5)
    assert [(each.index, each.translation.text) for each in results] == list(enumerate("ABCDE"))
    # When a stream has ended, grpc.aio drops the answers that have not been read: they are asked for again.
    assert "".join(request.content for request in other.requests) in ("cde", "bcde", "abcde")


def test_a_server_that_stops_while_texts_are_sent_costs_no_answer(client_type: type[Client], serve: Serve) -> None:
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
    script.on_stream = aborting(grpc.StatusCode.CANCELLED, "broken")
    with pytest.raises(sdk.CallCancelledError, match="broken"):
        client.translate_stream(["a"])
    assert len(script.metadata) == 3


def test_every_rpc_may_be_repeated_but_those_that_change_the_server() -> None:
    [service] = pb.DESCRIPTOR.services_by_name.values()
    rows = [each for each in vars(methods).values() if isinstance(each, Method)]
    streams = {"StreamTranslateText", "TranslateTextProgressively"}
    assert sorted(row.rpc for row in rows) == sorted({rpc.name for rpc in service.methods} - streams)
    assert {row.rpc for row in rows if not row.is_repeatable} == {"CreateGlossary", "DeleteGlossary"}
    assert all(row.is_repeatable for row in rows if row.may_be_hedged)
