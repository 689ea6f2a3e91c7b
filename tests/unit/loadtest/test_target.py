"""Connections of a load test."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from typing import Any

import grpc

from xuanzang.client._commands.connection_arguments import Connection
from xuanzang.loadtest.target import Target
from xuanzang.translation.v1 import translation_pb2 as pb

METHOD = "/xuanzang.translation.v1.TranslationService/TranslateText"


async def server(stack: AsyncExitStack, calls: Counter[str], name: str, held: asyncio.Event | None = None) -> str:
    """Start a server that counts its calls, of each peer if it has no name, and answers them or holds them."""

    async def answer(request: bytes, context: Any) -> bytes:
        calls[name or context.peer()] += 1
        if held:
            await held.wait()
        count = len(pb.TranslateTextRequest.FromString(request).contents)
        translation = pb.Translation(hypotheses=[pb.Hypothesis(text="x")])
        return pb.TranslateTextResponse(translations=[translation] * count).SerializeToString()

    started = grpc.aio.server()
    service, _, method = METHOD.lstrip("/").partition("/")
    handler: Any = grpc.unary_unary_rpc_method_handler(answer)
    started.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, {method: handler})])
    port = started.add_insecure_port("127.0.0.1:0")
    await started.start()
    stack.push_async_callback(started.stop, None)
    return f"127.0.0.1:{port}"


async def test_a_call_takes_the_connection_with_the_fewest_in_progress() -> None:
    calls, held = Counter[str](), asyncio.Event()
    async with AsyncExitStack() as stack:
        addresses = [await server(stack, calls, "held", held), await server(stack, calls, "free")]
        connection = Connection(
            address=addresses, timeout=30, tls=None, client_id=None, api_key=None, allow_insecure_key=False
        )
        target = await stack.enter_async_context(Target(connection, 1, source_language="zh", target_language="en"))
        first = [asyncio.create_task(target.translate(["你好"])) for _ in range(2)]
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        # One call waits on one connection: all others take the other.
        assert [await target.translate(["你好", "再见"]) for _ in range(20)] == ["OK"] * 20
        assert calls == {"held": 1, "free": 21}
        held.set()
        assert await asyncio.gather(*first) == ["OK", "OK"]


async def test_each_connection_of_an_address_is_one_of_its_own() -> None:
    calls = Counter[str]()
    async with AsyncExitStack() as stack:
        address = await server(stack, calls, "")
        connection = Connection(
            address=address, timeout=30, tls=None, client_id=None, api_key=None, allow_insecure_key=False
        )
        target = await stack.enter_async_context(Target(connection, 4, source_language="zh", target_language="en"))
        assert await asyncio.gather(*(target.translate(["你好"]) for _ in range(8))) == ["OK"] * 8
    assert list(calls.values()) == [2] * 4
