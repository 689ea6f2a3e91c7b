"""Calls of each kind, again and again, from a process of their own: what they leave in the server's is the server's.

Started with the address of a server, it reads lines such as "unary 50" and answers each with "done" after the calls.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import TypeAlias, cast

import grpc

from xuanzang.translation.v1 import translation_pb2 as pb
from xuanzang.translation.v1 import translation_pb2_grpc

TEXT = "我有一只猫。老师有三只马。"
SETTINGS = pb.TranslationSettings(options=pb.DecodingOptions(beam_size=2))
_SOON = 0.02
"""Seconds after which calls are cancelled; as a deadline too few, so that most calls with it are refused."""
_LONG = pb.TranslateTextRequest(
    contents=10 * [TEXT], settings=pb.TranslationSettings(options=pb.DecodingOptions(beam_size=8))
)

Stub: TypeAlias = "translation_pb2_grpc.TranslationServiceAsyncStub"


async def _unary(stub: Stub) -> None:
    await stub.TranslateText(pb.TranslateTextRequest(contents=[TEXT, TEXT], settings=SETTINGS))


async def _markup(stub: Stub) -> None:
    content = f"<p><b>{TEXT}</b><code>x</code></p>"
    settings = pb.TranslationSettings(content_format=pb.CONTENT_FORMAT_HTML)
    await stub.TranslateText(pb.TranslateTextRequest(contents=[content], settings=settings))


async def _alternatives(stub: Stub) -> None:
    options = pb.DecodingOptions(beam_size=2, num_hypotheses=2)
    settings = pb.TranslationSettings(options=options, return_alternatives=True)
    await stub.TranslateText(pb.TranslateTextRequest(contents=["我有一只猫。"], settings=settings))


async def _progressive(stub: Stub) -> None:
    request = pb.TranslateTextProgressivelyRequest(content=TEXT, settings=SETTINGS)
    assert [part async for part in stub.TranslateTextProgressively(request)]


async def _stream(stub: Stub) -> None:
    requests = [pb.StreamTranslateTextRequest(id=name, content=TEXT, settings=SETTINGS) for name in "abc"]
    # One message is bad, and answered with an error.
    requests[1].settings.options.beam_size = 1000
    assert len([answer async for answer in stub.StreamTranslateText(iter(requests))]) == len(requests)


async def _unwritten(stub: Stub) -> None:
    with suppress(grpc.aio.AioRpcError):
        await stub.CreateGlossary(pb.CreateGlossaryRequest(name=".."))


async def _invalid(stub: Stub) -> None:
    with suppress(grpc.aio.AioRpcError):
        await stub.TranslateText(
            pb.TranslateTextRequest(
                contents=[TEXT], settings=pb.TranslationSettings(options=pb.DecodingOptions(beam_size=1000))
            )
        )


async def _late(stub: Stub) -> None:
    with suppress(grpc.aio.AioRpcError):
        await stub.TranslateText(_LONG, timeout=_SOON)


async def _cancelled(stub: Stub) -> None:
    call = stub.TranslateText(_LONG)
    asyncio.get_running_loop().call_later(_SOON, call.cancel)
    with suppress(asyncio.CancelledError):
        await call


KINDS: Mapping[str, Callable[[Stub], Awaitable[None]]] = MappingProxyType(
    {
        "unary": _unary,
        "markup": _markup,
        "alternatives": _alternatives,
        "progressive": _progressive,
        "stream": _stream,
        "invalid": _invalid,
        "unwritten": _unwritten,
        "late": _late,
        "cancelled": _cancelled,
    }
)


async def _main(address: str) -> None:
    async with grpc.aio.insecure_channel(address) as channel:
        stub = cast("Stub", translation_pb2_grpc.TranslationServiceStub(channel))
        while line := await asyncio.to_thread(sys.stdin.readline):
            kind, number = line.split()
            for _ in range(int(number)):
                await KINDS[kind](stub)
            print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
