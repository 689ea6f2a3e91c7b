"""The real Envoy with deploy/envoy before real servers. `make e2e` installs it."""

from __future__ import annotations

import asyncio
import http.client
import json
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import envoy
import grpc
import http2
import pytest
from hyperframe.frame import RstStreamFrame
from replica_set import replica_set

from xuanzang.client import InvalidRequestError, TranslationClient
from xuanzang.translation.v1 import translation_pb2 as pb

pytestmark = pytest.mark.e2e

MODELS = envoy.ROOT / "server" / "models"
METHOD = "/xuanzang.translation.v1.TranslationService/TranslateText"
TEXT = "我有一只猫。"
TRAILERS = 0x80


@pytest.fixture(scope="module")
def program() -> str:
    found = envoy.program()
    if found is None:
        pytest.skip("NOT TESTED: nothing was sent through Envoy: there is none: `.ci/peers envoy` installs it")
    return found


@pytest.fixture(scope="module")
def proxy(program: str) -> Iterator[envoy.Proxy]:
    with replica_set(MODELS) as servers, envoy.Proxy(program, servers=servers.addresses) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def expected(proxy: envoy.Proxy) -> str:
    with TranslationClient(proxy.address) as client:
        return client.translate_one(TEXT).text


def request(proxy: envoy.Proxy, body: bytes, method: str = "POST", **headers: str) -> tuple[Any, bytes]:
    """Return the answer to an HTTP request for a translation, and its body."""
    connection = http.client.HTTPConnection(proxy.address, timeout=60)
    try:
        connection.request(method, METHOD, body, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer, answer.read()
    finally:
        connection.close()


@pytest.mark.parametrize("file", ["envoy.yaml", "canary.yaml"])
def test_envoy_accepts_the_configuration(program: str, tmp_path: Path, file: str) -> None:
    text = (envoy.FOLDER / file).read_text(encoding="utf-8")
    (tmp_path / "envoy.yaml").write_text(text.replace("/etc/envoy", str(envoy.FOLDER)), encoding="utf-8")
    command = [program, "--mode", "validate", "-c", str(tmp_path / "envoy.yaml")]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "deprecated" not in run.stderr.lower()


def test_a_browser_calls_by_grpc_web(proxy: envoy.Proxy, expected: str) -> None:
    message = pb.TranslateTextRequest(contents=[TEXT]).SerializeToString()
    frame = struct.pack(">BI", 0, len(message)) + message
    answer, body = request(proxy, frame, content_type="application/grpc-web+proto", x_grpc_web="1")
    frames = {}
    while body:
        kind, length = struct.unpack(">BI", body[:5])
        frames[kind], body = body[5 : 5 + length], body[5 + length :]
    assert answer.status == 200
    assert pb.TranslateTextResponse.FromString(frames[0]).translations[0].hypotheses[0].text == expected
    assert b"grpc-status:0" in frames[TRAILERS]


def test_a_call_in_json_is_answered_in_json(proxy: envoy.Proxy, expected: str) -> None:
    answer, body = request(proxy, json.dumps({"contents": [TEXT]}).encode(), content_type="application/json")
    assert answer.status == 200
    assert json.loads(body)["translations"][0]["hypotheses"][0]["text"] == expected


def test_a_refusal_in_json_names_the_field(proxy: envoy.Proxy) -> None:
    content = {"contents": [TEXT], "settings": {"options": {"beamSize": 1000}}}
    answer, body = request(proxy, json.dumps(content).encode(), content_type="application/json")
    assert answer.status == 400
    (detail,) = json.loads(body)["details"]
    assert detail["fieldViolations"][0]["field"] == "settings.options.beam_size"


def test_details_of_errors_reach_the_sdk(proxy: envoy.Proxy) -> None:
    with TranslationClient(proxy.address) as client, pytest.raises(InvalidRequestError) as raised:
        client.translate_one(TEXT, beam_size=1000)
    assert [violation.field for violation in raised.value.violations] == ["options.beam_size"]


def test_streams_and_progressive_translations_pass(proxy: envoy.Proxy, expected: str) -> None:
    with TranslationClient(proxy.address) as client:
        results = list(client.translate_stream([TEXT] * 50))
        parts = list(client.translate_progressively(TEXT))
    assert [each.translation.text for each in results if each.translation] == [expected] * 50
    assert "".join(part.text_delta for part in parts) == expected


@pytest.mark.parametrize(("origin", "allowed"), [("http://localhost:8080", True), ("https://evil.example", False)])
def test_only_pages_of_listed_origins_may_call(proxy: envoy.Proxy, origin: str, allowed: bool) -> None:
    answer, _ = request(proxy, b"", "OPTIONS", origin=origin, access_control_request_method="POST")
    assert (answer.getheader("access-control-allow-origin") == origin) is allowed


def test_other_services_are_not_routed(proxy: envoy.Proxy) -> None:
    with grpc.insecure_channel(proxy.address) as channel:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
            "/xuanzang.admin.v1.ModelService/ListModels"
        )
        with pytest.raises(grpc.RpcError) as raised:
            call(b"", timeout=30)
    assert raised.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def caller_names(program: str, client_id: str) -> list[str]:
    """Return the names of a caller that a server behind Envoy gets."""
    from grpc_health.v1 import health, health_pb2_grpc

    seen: list[str] = []

    async def answer(_: bytes, context: Any) -> bytes:
        seen.extend(value for key, value in context.invocation_metadata() if key == "x-client-id")
        return b""

    class Handler(grpc.GenericRpcHandler):
        def service(self, details: Any) -> Any:
            return grpc.unary_unary_rpc_method_handler(answer) if details.method == METHOD else None

    server = grpc.aio.server()
    servicer = health.aio.HealthServicer()
    await servicer.set("xuanzang.translation.v1.TranslationService", 1)
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    server.add_generic_rpc_handlers((Handler(),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    proxy = await asyncio.to_thread(envoy.Proxy(program, servers=[f"127.0.0.1:{port}"]).__enter__)
    try:
        async with grpc.aio.insecure_channel(proxy.address) as channel:
            call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(METHOD)
            await call(b"", metadata=(("x-client-id", client_id),), timeout=30)
    finally:
        proxy.__exit__()
        await server.stop(None)
    return seen


async def test_callers_are_named_by_their_address_and_not_by_themselves(program: str) -> None:
    assert await caller_names(program, "somebody else") == ["127.0.0.1"]


async def reset_rapidly(port: int, streams: int) -> None:
    """Open and reset streams on one connection until all are sent or the connection ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    receiving = asyncio.create_task(reader.read(-1))
    try:
        writer.write(http2.opening())
        for stream in range(1, 2 * streams, 2):
            frames = http2.Request(path=METHOD.encode(), body=None, is_ended=False).frames(stream)
            writer.write(frames + RstStreamFrame(stream, error_code=8).serialize())
            await writer.drain()
        await receiving
    except ConnectionError:
        pass
    finally:
        writer.transport.abort()
        await asyncio.gather(receiving, return_exceptions=True)


async def test_connections_that_reset_rapidly_are_closed_and_harm_no_others(proxy: envoy.Proxy, expected: str) -> None:
    with TranslationClient(proxy.address) as client:
        attacking = asyncio.gather(*(reset_rapidly(port(proxy), 20_000) for _ in range(3)))
        texts = [(await asyncio.to_thread(client.translate_one, TEXT)).text for _ in range(20)]
        async with asyncio.timeout(60):
            await attacking
    assert set(texts) == {expected}
    closed = "envoy_http_downstream_rq_too_many_premature_resets"
    assert await asyncio.to_thread(proxy.value, closed, envoy_http_conn_manager_prefix="callers") == 3


def port(proxy: envoy.Proxy) -> int:
    return int(proxy.address.rpartition(":")[2])
