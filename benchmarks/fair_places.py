"""Latency of a caller of single sentences next to a greedy one.

Starts a server, or asks one that runs. Each attack is measured beside a calm phase just before it: latencies of the
caller, statuses of its calls with deadlines, the ratio of the 99th percentiles. The attacker is a separate process.

    python -m benchmarks.fair_places --seconds 8
    python -m benchmarks.fair_places --seconds 6 --processes 1 2 4 --connections 1 2 8 64

Prints a line for each attack, and its figures as JSON. With `--processes` there is no attack: callers in a closed loop
share some connections to servers of some processes, and the table has the 95th percentile of each connection's calls.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import random
import socket
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any

import grpc

from xuanzang.client import TranslationClient
from xuanzang.translation.v1 import translation_pb2 as pb
from xuanzang.translation.v1 import translation_pb2_grpc

LOCAL = (("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1))
SENTENCES = ("我有一只猫。", "今天天气很好，我们去公园吧。", "老师昨天给我们讲了一个很有意思的故事。", "你好！")
CAT = SENTENCES[0]
LEGAL = "甲方应当在本合同签订之日起三十日内，按照附件一所列的金额和方式，向乙方支付全部款项。"
DEADLINE = 5.0
_CALLERS = 16
AT_ONCE = 4
"""Calls that an attacker has in progress."""

Options = pb.DecodingOptions


def settings_of(options: Options | None) -> pb.TranslationSettings:
    """Return settings with some options, so that no language need be detected."""
    return pb.TranslationSettings(options=options, source_language_code="zh")


Call = Callable[[Any, int], Awaitable[object]]


def unary(contents: list[str], options: Options | None = None, *, names: int = 1) -> Call:
    """Return an attack by calls with many texts, from callers of many names."""
    request = pb.TranslateTextRequest(contents=contents, settings=settings_of(options))

    async def call(stub: Any, number: int) -> None:
        name = (("x-client-id", f"attacker {number % names}"),)
        with contextlib.suppress(grpc.aio.AioRpcError):
            await stub.TranslateText(request, timeout=60, metadata=name)
            return
        await asyncio.sleep(0.01)

    return call


def stream(content: str, options: Options, *, count: int) -> Call:
    """Return an attack by streams that hold many sentences in flight."""

    async def requests() -> AsyncIterator[pb.StreamTranslateTextRequest]:
        for number in range(count):
            yield pb.StreamTranslateTextRequest(id=str(number), content=content, settings=settings_of(options))

    async def call(stub: Any, number: int) -> None:
        with contextlib.suppress(grpc.aio.AioRpcError):
            async for _ in stub.StreamTranslateText(
                requests(), timeout=60, metadata=(("x-client-id", f"attacker {number % 2}"),)
            ):
                pass

    return call


def mixed(*calls: Call) -> Call:
    """Return an attack that makes some calls in turn."""
    turns = itertools.cycle(calls)

    async def call(stub: Any, number: int) -> None:
        await next(turns)(stub, number)

    return call


ATTACKS: Mapping[str, Call] = {
    "64 sentences, minimum length 64, beam 4": unary([CAT] * 64, Options(min_target_length=64)),
    "64 sentences, minimum length 64, greedy": unary([CAT] * 64, Options(min_target_length=64, beam_size=1)),
    "64 sentences, minimum length 512": unary([CAT] * 64, Options(min_target_length=512)),
    "20,000 characters that nobody sees": mixed(unary(["\u200f" * 20_000]), unary(["\u0301" * 20_000])),
    "letters with 150 marks each": unary([("a" + "\u0301" * 150) * 60]),
    "beam 16, minimum length 64": unary([CAT] * 64, Options(beam_size=16, min_target_length=64)),
    "beam 16, repetition rewarded, maximum 512": unary(
        [LEGAL] * 64, Options(beam_size=16, max_target_length=512, repetition_penalty=0.1)
    ),
    "16 draws of 64 sentences": unary(
        [CAT] * 64, Options(num_hypotheses=16, min_target_length=60, sampling=pb.SamplingOptions(temperature=2))
    ),
    "legal texts of 5,000 characters": unary([(LEGAL * 130)[:5000]]),
    "legal sentences of 400 characters": unary(
        [LEGAL.replace("。", "，") * 9 + "。"] * 8, Options(no_repeat_ngram_size=2)
    ),
    "streams of 200 sentences": stream(LEGAL, Options(min_target_length=64), count=200),
    "4 callers of 64 forced sentences": unary([CAT] * 64, Options(min_target_length=64), names=4),
    "4 callers of 4 greedy sentences": unary([LEGAL] * 4, Options(beam_size=1), names=4),
    "all beam sizes": mixed(
        *(unary([LEGAL] * 16, Options(beam_size=beam, min_target_length=50)) for beam in (1, 2, 3, 5, 6, 7, 9, 12))
    ),
}


async def attack(port: int, name: str) -> None:
    """Attack until standard input ends."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", LOCAL) as channel:
        stub: Any = translation_pb2_grpc.TranslationServiceStub(channel)

        async def repeat(number: int) -> None:
            while True:
                await ATTACKS[name](stub, number)

        tasks = [asyncio.create_task(repeat(number)) for number in range(AT_ONCE)]
        print("begun", flush=True)
        await asyncio.to_thread(sys.stdin.read)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def measured(port: int, seconds: float) -> dict[str, Any]:
    """Translate one sentence after the other; return latencies in milliseconds, and statuses."""
    codes: Counter[str] = Counter()
    latencies = []
    chance = random.Random(1)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", LOCAL) as channel:
        stub: Any = translation_pb2_grpc.TranslationServiceStub(channel)
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            request = pb.TranslateTextRequest(contents=[chance.choice(SENTENCES)], settings=settings_of(None))
            began = time.perf_counter()
            call = stub.TranslateText(request, timeout=DEADLINE, metadata=(("x-client-id", "victim"),))
            codes[(await call.code()).name] += 1
            latencies.append(1000 * (time.perf_counter() - began))
    hundredths = statistics.quantiles(latencies, n=100)
    return {"calls": len(latencies), "p50": hundredths[49], "p99": hundredths[98], "max": max(latencies), **codes}


async def measure(port: int, seconds: float, only: str) -> None:
    """Print the figures of each attack."""
    await measured(port, 2)
    for name in ATTACKS:
        if only not in name:
            continue
        calm = await measured(port, seconds)
        attacker = await asyncio.create_subprocess_exec(
            *("nice", sys.executable, __file__, "--port", str(port), "--attack", name),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert attacker.stdin is not None
        assert attacker.stdout is not None
        await attacker.stdout.readline()
        await asyncio.sleep(1)
        beside = await measured(port, seconds)
        attacker.stdin.close()
        await attacker.wait()
        figures = {"attack": name, "p99 ratio": beside["p99"] / calm["p99"], "calm": calm, "beside": beside}
        print(json.dumps(figures, default=str), flush=True)
        print(
            f"{name}: p50 {calm['p50']:.0f} -> {beside['p50']:.0f} ms, p99 {calm['p99']:.0f} -> {beside['p99']:.0f} "
            f"({beside['p99'] / calm['p99']:.1f} x), longest {beside['max']:.0f} ms",
            file=sys.stderr,
            flush=True,
        )
        await asyncio.sleep(1)


async def percentiles(port: int, connections: int, seconds: float) -> tuple[list[float], int]:
    """Return the 95th percentile of each connection's calls in milliseconds, and the number of calls.

    There are 16 callers, or one for each connection.
    """
    latencies: list[list[float]] = [[] for _ in range(connections)]

    async def call(stub: Any, found: list[float], ends: float) -> None:
        chance = random.Random(len(found))
        while (began := time.perf_counter()) < ends:
            request = pb.TranslateTextRequest(contents=[chance.choice(SENTENCES)], settings=settings_of(None))
            await stub.TranslateText(request, timeout=60)
            found.append(1000 * (time.perf_counter() - began))

    async with contextlib.AsyncExitStack() as opened:
        channels = [grpc.aio.insecure_channel(f"127.0.0.1:{port}", LOCAL) for _ in latencies]
        for channel in channels:
            await opened.enter_async_context(channel)
        stubs: list[Any] = [translation_pb2_grpc.TranslationServiceStub(channel) for channel in channels]
        callers = [number % connections for number in range(max(_CALLERS, connections))]
        for duration in (seconds / 4, seconds):
            for found in latencies:
                found.clear()
            ends = time.perf_counter() + duration
            await asyncio.gather(*(call(stubs[number], latencies[number], ends) for number in callers))
    return [statistics.quantiles(found, n=20)[-1] for found in latencies], sum(map(len, latencies))


def spreads(models: str, processes: list[int], connections: list[int], seconds: float) -> None:
    """Print the table of the 95th percentiles of connections."""
    print("| processes | connections | texts/s | p95 of a connection, ms: least, median, most | most / least |")
    print("|---|---|---|---|---|")
    for count in processes:
        for number in connections:
            with server(models, f"--processes={count}") as port:
                # All processes begin to answer together.
                with TranslationClient(f"127.0.0.1:{port}", wait_for_server=True) as client:
                    client.translate_one(CAT, timeout=120)
                found, calls = asyncio.run(percentiles(port, number, seconds))
            lowest, median, highest = min(found), statistics.median(found), max(found)
            each = f"{lowest:.0f}, {median:.0f}, {highest:.0f}"
            print(f"| {count} | {number} | {calls / seconds:.0f} | {each} | {highest / lowest:.2f} |", flush=True)


@contextlib.contextmanager
def server(models: str, *options: str) -> Iterator[int]:
    """Run a server on a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    flags = ["--models", models, "--address", f"127.0.0.1:{port}", "--metrics-address", "127.0.0.1:0"]
    process = subprocess.Popen([sys.executable, "-m", "xuanzang.server", *flags, "--log-level", "warning", *options])
    try:
        grpc.channel_ready_future(grpc.insecure_channel(f"127.0.0.1:{port}")).result(timeout=60)
        yield port
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="server/models", help="folder of bundles of the server to start")
    parser.add_argument("--port", type=int, help="port of a running server, instead of starting one")
    parser.add_argument("--seconds", type=float, default=8, help="of each phase")
    parser.add_argument("--only", default="", help="part of the names of the attacks to measure")
    parser.add_argument("--attack", help="make this attack until standard input ends; measure nothing")
    parser.add_argument("--processes", type=int, nargs="+", default=[], help="processes of servers, without attacks")
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 2, 8, 64], help="with --processes")
    arguments = parser.parse_args()
    if arguments.processes:
        spreads(arguments.models, arguments.processes, arguments.connections, arguments.seconds)
        return
    if arguments.attack:
        asyncio.run(attack(arguments.port, arguments.attack))
        return
    with contextlib.nullcontext(arguments.port) if arguments.port else server(arguments.models) as port:
        asyncio.run(measure(port, arguments.seconds, arguments.only))


if __name__ == "__main__":
    main()
