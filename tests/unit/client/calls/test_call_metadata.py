"""Ids and traces that calls carry, and usage that servers report."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import grpc
import pytest
from otlp import traced_caller
from tests.unit.client.conftest import Client, Script, aborting, refusing

from xuanzang import client as sdk
from xuanzang.client._values.results import usage_of


def test_every_call_has_an_id_of_its_own(client: Any, script: Script) -> None:
    client.translate(["a"])
    client.translate(["b"])
    client.translate_stream(["c"])
    client.translate_progressively("d")
    assert len({metadata["x-request-id"] for metadata in script.metadata}) == len(script.metadata) == 4


def test_all_tries_of_a_call_have_the_same_id(client: Any, script: Script) -> None:
    script.on_translate = refusing(1, grpc.StatusCode.RESOURCE_EXHAUSTED)
    client.translate(["a"])
    first, second = script.metadata
    assert first["x-request-id"] == second["x-request-id"]


def test_an_id_that_the_server_gave_instead_is_that_of_the_error(client: Any, script: Script) -> None:
    script.on_translate = aborting(grpc.StatusCode.NOT_FOUND, "no such model", ("x-request-id", "of-the-proxy"))
    with pytest.raises(sdk.ModelNotFoundError, match=r"no such model \[request of-the-proxy\]") as caught:
        client.translate(["a"])
    assert caught.value.request_id == "of-the-proxy"


def test_errors_of_a_stream_have_its_id(client: Any, script: Script) -> None:
    script.on_stream = script.on_progressive = aborting(grpc.StatusCode.INTERNAL)
    for call, text in ((client.translate_stream, ["a"]), (client.translate_progressively, "a")):
        with pytest.raises(sdk.ServerFaultError) as caught:
            call(text)
        assert caught.value.request_id == script.metadata[-1]["x-request-id"]


def test_what_is_refused_before_it_is_sent_has_no_id(client: Any) -> None:
    with pytest.raises(sdk.InvalidRequestError) as caught:
        client.translate(["\udc00"])
    assert caught.value.request_id is None
    assert "request" not in str(caught.value).partition("[")[2]


def test_calls_carry_the_current_trace_and_nothing_outside_of_one(client: Any, script: Script) -> None:
    client.translate(["a"])
    with traced_caller() as caller:
        client.translate(["b"])
    outside, inside = script.metadata
    assert "traceparent" not in outside
    assert inside["traceparent"].startswith(f"00-{caller.trace_id:032x}-{caller.span_id:016x}-")


def test_the_client_imports_neither_opentelemetry_nor_documents() -> None:
    program = (
        "import sys; from xuanzang.client import TranslationClient as C, TranslationError\n"
        "try: C('127.0.0.1:1').translate(['a'], timeout=0.1)\n"
        "except TranslationError: print({'opentelemetry', 'xuanzang.documents'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


USED = sdk.Usage(characters=12, sentences=3)


def counted(method: Any) -> Any:
    def translate(request: Any, context: Any) -> Any:
        context.set_trailing_metadata((("x-usage-characters", "12"), ("x-usage-sentences", "3")))
        return method(request, context)

    return translate


@pytest.mark.parametrize("hosts", [["127.0.0.1"], ["127.0.0.1", "localhost"]])
def test_every_kind_of_call_reports_what_it_has_used(
    client_type: type[Client], script: Script, hosts: list[str]
) -> None:
    for name in ("on_translate", "on_stream", "on_progressive"):
        setattr(script, name, counted(getattr(script, name)))
    seen: list[sdk.Usage] = []
    client = client_type([script.address.replace("127.0.0.1", host) for host in hosts], on_usage=seen.append)
    client.translate(["a", "b"])
    assert seen == [USED]
    assert len(client.translate_stream(["a", "b"])) == 2
    assert seen == [USED] * 2
    assert client.translate_progressively("a")
    assert seen == [USED] * 3


def test_a_server_that_does_not_count_is_no_fault(script: Script) -> None:
    seen: list[sdk.Usage] = []
    with sdk.TranslationClient(script.address, on_usage=seen.append) as client:
        client.translate_one("a")
    assert seen == []


def test_other_metadata_is_no_usage() -> None:
    characters = ("x-usage-characters", "1")
    negative, binary = ("x-usage-sentences", "-1"), ("x-usage-characters", b"1")
    others: list[Any] = [None, [], [characters], [characters, negative], [binary, ("x-usage-sentences", "1")]]
    assert [usage_of(metadata) for metadata in others] == [None] * len(others)
