"""Connections of a load test, to servers on free ports."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

import grpc
import pytest
from stand_in_server import PINGED

from xuanzang.client._commands.connection_arguments import Connection
from xuanzang.loadtest.target import Target
from xuanzang.translation.v1 import translation_pb2 as pb

Answer = Callable[[Sequence[str], Any], Awaitable[Sequence[str]]]
"""Function of the texts and the context of a call that returns the translations."""


@pytest.fixture
async def opened() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


async def served(opened: AsyncExitStack, answer: Answer) -> str:
    """Start a server, and return its address."""

    async def translate(request: pb.TranslateTextRequest, context: Any) -> pb.TranslateTextResponse:
        texts = await answer(request.contents, context)
        return pb.TranslateTextResponse(
            translations=[pb.Translation(hypotheses=[pb.Hypothesis(text=text)]) for text in texts]
        )

    server = grpc.aio.server(options=PINGED)
    handler = grpc.unary_unary_rpc_method_handler(
        translate, pb.TranslateTextRequest.FromString, pb.TranslateTextResponse.SerializeToString
    )
    server.add_registered_method_handlers("xuanzang.translation.v1.TranslationService", {"TranslateText": handler})
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    opened.push_async_callback(server.stop, None)
    return f"127.0.0.1:{port}"


def connection(address: str | list[str], client_id: str | None = None, api_key: str = "") -> Connection:
    return Connection(address, None, 30.0, client_id, api_key, False)


async def test_a_call_takes_the_connection_with_the_fewest_in_progress(opened: AsyncExitStack) -> None:
    calls, held = Counter[str](), asyncio.Event()

    async def hold(texts: Sequence[str], _: Any) -> Sequence[str]:
        calls["held"] += 1
        await held.wait()
        return texts

    async def answer(texts: Sequence[str], _: Any) -> Sequence[str]:
        calls["free"] += 1
        return texts

    addresses = [await served(opened, hold), await served(opened, answer)]
    target = await opened.enter_async_context(Target(connection(addresses), 1))
    first = [asyncio.create_task(target.translate(["你好"])) for _ in range(2)]
    await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
    # One call waits on one connection: all others take the other.
    assert [await target.translate(["你好", "再见"]) for _ in range(20)] == ["OK"] * 20
    assert calls == {"held": 1, "free": 21}
    held.set()
    assert await asyncio.gather(*first) == ["OK", "OK"]


async def test_each_connection_of_an_address_is_one_of_its_own(opened: AsyncExitStack) -> None:
    calls = Counter[str]()

    async def answer(texts: Sequence[str], context: Any) -> Sequence[str]:
        calls[context.peer()] += 1
        return texts

    target = await opened.enter_async_context(Target(connection(await served(opened, answer)), 4))
    assert await asyncio.gather(*(target.translate(["你好"]) for _ in range(8))) == ["OK"] * 8
    assert list(calls.values()) == [2] * 4


async def test_an_answer_without_a_translation_is_not_ok(opened: AsyncExitStack) -> None:
    answers = {"你好。": ["Hello."], "空": [" "], "少": []}

    async def answer(texts: Sequence[str], _: Any) -> Sequence[str]:
        return answers[texts[0]]

    target = await opened.enter_async_context(Target(connection(await served(opened, answer)), 1))
    assert [await target.translate([text]) for text in answers] == ["OK", "EMPTY", "EMPTY"]


async def test_names_are_sent_as_client_ids_and_not_with_a_key(opened: AsyncExitStack) -> None:
    named: list[object] = []

    async def answer(texts: Sequence[str], context: Any) -> Sequence[str]:
        named.append(dict(context.invocation_metadata()).get("x-client-id"))
        return texts

    address = await served(opened, answer)
    target = await opened.enter_async_context(Target(connection(address, "load"), 1, names=2))
    for name in (0, 1, 0):
        await target.translate(["一"], name)
    assert named == ["load-0", "load-1", "load-0"]
    with pytest.raises(ValueError, match="a key is one caller"):
        Target(connection(address, api_key="key"), 1, names=2)
