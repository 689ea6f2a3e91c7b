"""Calls written as frames, to a real gRPC server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from benchmarks.harness.light_calls import CANCELLED, DEADLINE_EXCEEDED, LightConnection, body_of, headers_of

METHOD = "/service/Method"
RESOURCE_EXHAUSTED = 8


class Handler(grpc.GenericRpcHandler):
    """Answers a message with itself, and refuses "refuse"."""

    def __init__(self) -> None:
        self.running = 0
        self.most = 0

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        async def answer(message: bytes, context: Any) -> bytes:
            if message == b"refuse":
                await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "busy", (("grpc-retry-pushback-ms", "250"),))
            self.running += 1
            self.most = max(self.most, self.running)
            await asyncio.sleep(0)
            self.running -= 1
            return message

        return grpc.unary_unary_rpc_method_handler(answer)


@pytest.fixture
def handler() -> Handler:
    return Handler()


@pytest.fixture
async def address(handler: Handler) -> AsyncIterator[str]:
    server = grpc.aio.server(options=[("grpc.max_concurrent_streams", 4)])
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(None)


async def test_answers_and_refusals_are_told_apart(address: str) -> None:
    connection = await LightConnection.open(address)
    block = headers_of(METHOD, 60)
    for message, code, advised in ((b"a", 0, None), (b"refuse", RESOURCE_EXHAUSTED, 0.25), (b"b" * 50_000, 0, None)):
        ended = await connection.call(block, body_of(message), timeout=60, due=time.perf_counter())
        assert (ended.code, ended.advised) == (code, advised)
    connection.close()


async def test_a_connection_has_no_more_calls_than_the_server_allows(address: str, handler: Handler) -> None:
    connection = await LightConnection.open(address)
    block, body = headers_of(METHOD, 60), body_of(b"x" * 10_000)
    calls = [connection.call(block, body, timeout=60, due=time.perf_counter()) for _ in range(50)]
    codes = [(await call).code for call in calls]
    # gRPC counts a stream for a moment after its end, and resets a new one that it has no room for.
    assert set(codes) <= {0, CANCELLED}
    assert codes.count(0) >= 25
    assert handler.most <= 4
    connection.close()


async def test_a_call_without_a_place_ends_at_its_deadline() -> None:
    connection = LightConnection()
    ended = await connection.call(b"", b"x" * 70_000, timeout=0.01, due=time.perf_counter())
    assert ended.code == DEADLINE_EXCEEDED
