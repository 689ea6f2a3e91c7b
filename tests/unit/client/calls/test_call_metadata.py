"""Ids and traces that calls carry, seen by a scripted server."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import grpc
import pytest
from otlp import traced_caller

from xuanzang import client as sdk


def test_every_call_has_an_id_of_its_own(client: Any, script: Any) -> None:
    client.translate(["a"])
    client.translate(["b"])
    assert len(list(client.translate_stream(["c"]))) == 1
    assert list(client.translate_progressively("d"))
    ids = [metadata["x-request-id"] for metadata in script.metadata]
    assert len(set(ids)) == len(ids) == 4


def test_all_tries_of_a_call_have_the_same_id(client: Any, script: Any) -> None:
    def refuse_once(request: Any, context: Any) -> Any:
        if len(script.metadata) == 1:
            context.set_trailing_metadata((("grpc-retry-pushback-ms", "1"),))
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "busy")
        return answer(request, context)

    answer, script.on_translate = script.on_translate, refuse_once
    client.translate(["a"])
    first, second = script.metadata
    assert first["x-request-id"] == second["x-request-id"]


def test_an_id_that_the_server_gave_instead_is_that_of_the_error(client: Any, script: Any) -> None:
    def refuse(_: Any, context: Any) -> None:
        context.set_trailing_metadata((("x-request-id", "of-the-proxy"),))
        context.abort(grpc.StatusCode.NOT_FOUND, "no such model")

    script.on_translate = refuse
    with pytest.raises(sdk.ModelNotFoundError, match=r"no such model \[request of-the-proxy\]") as caught:
        client.translate(["a"])
    assert caught.value.request_id == "of-the-proxy"


def test_errors_of_a_stream_have_its_id(client: Any, script: Any) -> None:
    def refuse(_: Any, context: Any) -> None:
        context.abort(grpc.StatusCode.INTERNAL, "broken")

    script.on_stream = script.on_progressive = refuse
    for call, text in ((client.translate_stream, ["a"]), (client.translate_progressively, "a")):
        with pytest.raises(sdk.ServerFaultError) as caught:
            list(call(text))
        assert caught.value.request_id == script.metadata[-1]["x-request-id"]


def test_what_is_refused_before_it_is_sent_has_no_id(client: Any) -> None:
    with pytest.raises(sdk.InvalidRequestError) as caught:
        client.translate(["\udc00"])
    assert caught.value.request_id is None
    assert "request" not in str(caught.value).partition("[")[2]


def test_calls_carry_the_current_trace_and_nothing_outside_of_one(client: Any, script: Any) -> None:
    client.translate(["a"])
    with traced_caller() as caller:
        client.translate(["b"])
    outside, inside = script.metadata
    assert "traceparent" not in outside
    assert inside["traceparent"].startswith(f"00-{caller.trace_id:032x}-{caller.span_id:016x}-")


def test_the_client_does_not_import_opentelemetry() -> None:
    program = (
        "import sys; from xuanzang.client import TranslationClient as C, TranslationError\n"
        "try: C('127.0.0.1:1').translate(['a'], timeout=0.1)\n"
        "except TranslationError: print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
