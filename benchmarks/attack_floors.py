"""Measure what a well-behaved caller suffers from attacks by `python -m benchmarks.attack_floors --port ...`.

Prints one line of JSON per phase, each attack beside a calm phase just before it. Loopback only.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import statistics
import sys
import time
from asyncio.subprocess import PIPE
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
from hyperframe.frame import RstStreamFrame

from xuanzang.translation.v1 import translation_pb2 as pb
from xuanzang.translation.v1 import translation_pb2_grpc

TESTS = Path(__file__).parents[1] / "tests"
sys.path += [str(TESTS / "support"), str(TESTS / "faults")]

from http2 import Request, connections, exchange, opening  # noqa: E402 - of the folders above
from test_fuzz_http2 import frames, raw, requests  # noqa: E402

LOCAL = (("grpc.use_local_subchannel_pool", 1),)
TRANSLATE = b"/xuanzang.translation.v1.TranslationService/TranslateText"

Attack = Callable[[], AbstractAsyncContextManager[Any]]


@asynccontextmanager
async def idle_streams(port: int, number: int) -> AsyncIterator[None]:
    """Keep streams open that send nothing."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", LOCAL) as channel:
        stub: Any = translation_pb2_grpc.TranslationServiceStub(channel)
        streams = [stub.StreamTranslateText(metadata=(("x-client-id", str(each)),)) for each in range(number)]
        yield
        for stream in streams:
            stream.cancel()


@asynccontextmanager
async def repeated(attack: Callable[[], Any], *, at_once: int) -> AsyncIterator[None]:
    """Repeat an attack, several at the same time."""

    async def repeat() -> None:
        while True:
            with contextlib.suppress(OSError):
                await attack()

    tasks = [asyncio.create_task(repeat()) for _ in range(at_once)]
    yield
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def resets(first: int) -> bytes:
    """Return requests that are reset at once."""
    written = opening()
    for stream in range(1, 4001, 2):
        written += Request(path=TRANSLATE, extra=[(b"x-n", str(first).encode())]).frames(stream)
        written += RstStreamFrame(stream, error_code=8).serialize()
    return written


async def measured(port: int, seconds: float) -> dict[str, object]:
    """Translate one sentence after the other and return latencies and statuses."""
    request = pb.TranslateTextRequest(contents=["我有一只猫。"])
    codes: Counter[str] = Counter()
    latencies = []
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", LOCAL) as channel:
        stub: Any = translation_pb2_grpc.TranslationServiceStub(channel)
        await stub.TranslateText(request, timeout=60).code()
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            began = time.perf_counter()
            call = stub.TranslateText(request, timeout=60)
            codes[(await call.code()).name] += 1
            latencies.append(1000 * (time.perf_counter() - began))
    hundredths = statistics.quantiles(latencies, n=100)
    return {"calls": len(latencies), "p50_ms": round(hundredths[49], 1), "p99_ms": round(hundredths[98], 1), **codes}


def attacks(port: int, metrics_port: int) -> dict[str, Attack]:
    """Return each attack under its name."""
    chance = random.Random(1)
    flood = resets(0)
    return {
        "1024 idle streams": lambda: idle_streams(port, 1024),
        "5000 idle connections": lambda: connections(port, 5000, opening()),
        "5000 half-open metrics connections": lambda: connections(metrics_port, 5000, b"GET /metrics HT"),
        "rapid reset": lambda: repeated(lambda: exchange(port, flood, until=b"never", seconds=1), at_once=2),
        "fuzz": lambda: repeated(
            lambda: exchange(port, chance.choice((raw, requests, frames))(chance), seconds=0.3), at_once=4
        ),
    }


async def main() -> None:
    """Measure each attack, or be one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--metrics-port", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--only", default="")
    parser.add_argument("--attack", help="run this attack until standard input ends; measure nothing")
    arguments = parser.parse_args()
    known = attacks(arguments.port, arguments.metrics_port)
    if arguments.attack:
        async with known[arguments.attack]():
            print("begun", flush=True)
            await asyncio.to_thread(sys.stdin.read)
        return
    for name in known:
        if arguments.only not in name:
            continue
        print(json.dumps({"phase": "calm", **await measured(arguments.port, arguments.seconds)}), flush=True)
        # A process of its own, at a lower priority: the attacker's work is not what the caller waits for.
        attacker = await asyncio.create_subprocess_exec(
            *("nice", sys.executable, *sys.argv, "--attack", name), stdin=PIPE, stdout=PIPE
        )
        assert attacker.stdin is not None
        assert attacker.stdout is not None
        await attacker.stdout.readline()
        print(json.dumps({"phase": name, **await measured(arguments.port, arguments.seconds)}), flush=True)
        attacker.stdin.close()
        await attacker.wait()


if __name__ == "__main__":
    asyncio.run(main())
