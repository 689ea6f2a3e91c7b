"""Objects that calls leave behind in cycles, which stay until Python looks for them and fragment its heap."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import AsyncGeneratorType, CoroutineType, FrameType, FunctionType, GeneratorType, TracebackType
from typing import Any

import pytest
import repeated_calls
from tests.integration.conftest import shared

CALLS = 40
MAX_OF_STREAM = 6
"""Objects of a stream that gRPC leaves: the function that finds its handler refers to itself."""

# asyncio closes the generators that are found, in turns of the loop; what they hold is found after that.
_ROUNDS = 5

Repeat = Callable[[str, int], Awaitable[None]]


@asynccontextmanager
async def callers(address: str) -> AsyncIterator[Repeat]:
    """Start another process; yield a function that lets it make calls of a kind, one after the other."""
    script = (sys.executable, repeated_calls.__file__, address)
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*script, stdin=pipe, stdout=pipe)
    stdin, stdout = process.stdin, process.stdout
    assert stdin
    assert stdout

    async def repeat(kind: str, number: int) -> None:
        stdin.write(f"{kind} {number}\n".encode())
        assert await stdout.readline() == b"done\n"

    try:
        yield repeat
    finally:
        stdin.close()
        await process.wait()


async def collect() -> None:
    for _ in range(_ROUNDS):
        gc.collect()
        await asyncio.sleep(0)


async def garbage(work: Awaitable[None]) -> list[Any]:
    """Return what can only be found by the collector after some work."""
    gc.disable()
    try:
        await collect()
        await work
        gc.set_debug(gc.DEBUG_SAVEALL)
        await collect()
        return list(gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def name_of(found: Any) -> str:
    """Return the name of an object's type, or that of the function whose code it runs."""
    match found:
        case FrameType():
            return f"frame of {found.f_globals.get('__name__')}.{found.f_code.co_name}"
        case TracebackType():
            return name_of(found.tb_frame)
        case CoroutineType() | GeneratorType() | AsyncGeneratorType() | FunctionType():
            return f"{getattr(found, '__module__', '')}.{found.__qualname__}"
        case _:
            return f"{type(found).__module__}.{type(found).__qualname__}"


@shared
async def called(start_server: Any) -> AsyncIterator[tuple[Any, Repeat]]:
    """Yield a server, and the function that lets another process call it."""
    async with start_server(glossary_writers="*") as running, callers(running.address) as repeat:
        yield running, repeat


@pytest.mark.parametrize("kind", repeated_calls.KINDS)
async def test_calls_leave_no_cycles_but_one_of_grpc_for_each_stream(kind: str, called: tuple[Any, Repeat]) -> None:
    running, repeat = called

    async def work() -> None:
        await repeat(kind, CALLS)
        await running.server.rpc.join()

    # What is made once, such as caches of expressions, is made now.
    await work()
    found = Counter(map(name_of, await garbage(work())))
    ours = {name: count for name, count in found.items() if "xuanzang" in name}
    assert ours == {}
    # Less than one object for each call; the rest is what happens now and then.
    assert found.total() < CALLS * (1 + (MAX_OF_STREAM if kind == "stream" else 0)), found
