"""Latency of a caller of single sentences next to a greedy one.

Starts a server, or asks one that runs. Each attack is measured beside a calm phase just before it: latencies of the
caller, statuses of its calls with deadlines, the ratio of the 99th percentiles, the slowest health check, the share of
a core that server and attacker took. The attacker is a separate process, and has another address if its name says "from
afar": ::1, beside the caller's 127.0.0.1.

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
from grpc_health.v1 import health_pb2, health_pb2_grpc

from benchmarks.harness.processes import cpu_seconds
from xuanzang.client import TranslationClient
from xuanzang.translation.v1 import translation_pb2 as pb
from xuanzang.translation.v1 import translation_pb2_grpc

LOCAL = (("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1), ("grpc.enable_retries", 0))
SENTENCES = ("我有一只猫。", "今天天气很好，我们去公园吧。", "老师昨天给我们讲了一个很有意思的故事。", "你好！")
CAT = SENTENCES[0]
LEGAL = "甲方应当在本合同签订之日起三十日内，按照附件一所列的金额和方式，向乙方支付全部款项。"
DEADLINE = 5.0
_CALLERS = 16
AT_ONCE = 4
"""Calls that an attacker has in progress."""
FROM_AFAR = "from afar: "
_CONNECTIONS = 8

Options = pb.DecodingOptions


def settings_of(options: Options | None) -> pb.TranslationSettings:
    """Return settings with some options, so that no language need be detected."""
    return pb.TranslationSettings(options=options, source_language_code="zh")


Call = Callable[[Any, int], Awaitable[object]]


def unary(
    contents: list[str],
    options: Options | None = None,
    *,
    names: int = 1,
    name: str = "attacker",
    settings: pb.TranslationSettings | None = None,
) -> Call:
    """Return an attack by calls with many texts, from callers of many names."""
    request = pb.TranslateTextRequest(contents=contents, settings=settings or settings_of(options))

    async def call(stub: Any, number: int) -> None:
        metadata = (("x-client-id", name if names == 1 else f"{name} {number % names}"),)
        with contextlib.suppress(grpc.aio.AioRpcError):
            await stub.TranslateText(request, timeout=60, metadata=metadata)
            return
        await asyncio.sleep(0.01)

    return call


async def cancelled(stub: Any, _number: int) -> None:
    """Call with 160 sentences, and hang up after 0.3 seconds."""
    request = pb.TranslateTextRequest(contents=[CAT * 20] * 8, settings=settings_of(None))
    call = stub.TranslateText(request, metadata=(("x-client-id", "attacker"),))
    await asyncio.sleep(0.3)
    call.cancel()
    await asyncio.sleep(0)


async def detected(stub: Any, _number: int) -> None:
    """Have the languages of 16 MB of texts detected."""
    with contextlib.suppress(grpc.aio.AioRpcError):
        await stub.DetectLanguage(pb.DetectLanguageRequest(contents=["hello wereld " * 1200] * 1024), timeout=60)


def from_afar() -> Mapping[str, tuple[int, Call]]:
    """Return attacks from another address, each with its number of calls in progress."""
    eight = [LEGAL] * 8
    entries = [pb.GlossaryEntry(source=f"词{number}", targets=[f"w{number}"]) for number in range(200_000)]
    html = pb.TranslationSettings(source_language_code="zh", content_format=pb.CONTENT_FORMAT_HTML)
    glossary = pb.TranslationSettings(source_language_code="zh", glossary_entries=entries)
    draws = Options(num_hypotheses=16, sampling=pb.SamplingOptions(temperature=10))
    return {
        "64 callers of the victim's name": (64, unary(eight, name="victim")),
        "200 names": (200, unary(eight, names=200)),
        "700 names": (700, unary(eight, names=700)),
        "64 callers of an unknown model": (64, unary(eight, settings=pb.TranslationSettings(model="none"))),
        "cancelled calls": (8, cancelled),
        "16 draws at temperature 10": (4, unary([CAT], draws)),
        "16 MiB of HTML": (4, unary(["<a" * 2**22], settings=html)),
        "200,000 glossary entries": (4, unary([CAT], settings=glossary)),
        "16 MB of texts to detect": (4, detected),
    }


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
    is_far = name.startswith(FROM_AFAR)
    at_once, call = from_afar()[name.removeprefix(FROM_AFAR)] if is_far else (AT_ONCE, ATTACKS[name])
    async with contextlib.AsyncExitStack() as opened:
        stubs: list[Any] = []
        for _ in range(_CONNECTIONS if is_far else 1):
            address = f"{'[::1]' if is_far else '127.0.0.1'}:{port}"
            channel = await opened.enter_async_context(grpc.aio.insecure_channel(address, LOCAL))
            stubs.append(translation_pb2_grpc.TranslationServiceStub(channel))

        async def repeat(number: int) -> None:
            while True:
                await call(stubs[number % len(stubs)], number)

        tasks = [asyncio.create_task(repeat(number)) for number in range(at_once)]
        print("begun", flush=True)
        await asyncio.to_thread(sys.stdin.read)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def measured(port: int, seconds: float) -> dict[str, Any]:
    """Translate one sentence after the other; return latencies in milliseconds, and statuses."""
    codes: Counter[str] = Counter()
    latencies, checks = [], list[float]()
    chance = random.Random(1)

    async def check(channel: grpc.aio.Channel) -> None:
        while True:
            began = time.perf_counter()
            await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=DEADLINE)
            checks.append(1000 * (time.perf_counter() - began))
            await asyncio.sleep(0.1)

    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", LOCAL) as channel:
        stub: Any = translation_pb2_grpc.TranslationServiceStub(channel)
        ends, checking = time.monotonic() + seconds, asyncio.create_task(check(channel))
        while time.monotonic() < ends:
            request = pb.TranslateTextRequest(contents=[chance.choice(SENTENCES)], settings=settings_of(None))
            began = time.perf_counter()
            call = stub.TranslateText(request, timeout=DEADLINE, metadata=(("x-client-id", "victim"),))
            codes[(await call.code()).name] += 1
            latencies.append(1000 * (time.perf_counter() - began))
        checking.cancel()
    hundredths = statistics.quantiles(latencies, n=100)
    figures = {"calls": len(latencies), "p50": hundredths[49], "p99": hundredths[98], "max": max(latencies)}
    return {**figures, "health": max(checks), **codes}


async def measure(port: int, seconds: float, only: str, *, server: int | None) -> None:
    """Print the figures of each attack on a server, by the number of its process if that is known."""
    await measured(port, 2)
    for name in (*ATTACKS, *(f"{FROM_AFAR}{name}" for name in from_afar())):
        if only not in name:
            continue
        calm = await measured(port, seconds)
        attacker = await asyncio.create_subprocess_exec(
            *("nice", sys.executable, "-m", "benchmarks.fair_places", "--port", str(port), "--attack", name),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert attacker.stdin is not None
        assert attacker.stdout is not None
        await attacker.stdout.readline()
        await asyncio.sleep(1)
        pids = {"attacker": attacker.pid, **({"server": server} if server else {})}
        used = {who: cpu_seconds(pid) for who, pid in pids.items()}
        beside = await measured(port, seconds)
        cores = {who: round((cpu_seconds(pid) - used[who]) / seconds, 2) for who, pid in pids.items()}
        attacker.stdin.close()
        await attacker.wait()
        figures = {"attack": name, "p99 ratio": beside["p99"] / calm["p99"], "calm": calm, "beside": beside}
        figures |= {"cores": cores}
        print(json.dumps(figures, default=str), flush=True)
        print(
            f"{name}: p50 {calm['p50']:.0f} -> {beside['p50']:.0f} ms, p99 {calm['p99']:.0f} -> {beside['p99']:.0f} "
            f"({beside['p99'] / calm['p99']:.1f} x), longest {beside['max']:.0f} ms, health {beside['health']:.0f} ms, "
            f"refused {beside['calls'] - beside['OK']}; cores: {cores}",
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
            with server(models, f"--processes={count}") as (port, _):
                # All processes begin to answer together.
                with TranslationClient(f"127.0.0.1:{port}", wait_for_server=True) as client:
                    client.translate_one(CAT, timeout=120)
                found, calls = asyncio.run(percentiles(port, number, seconds))
            lowest, median, highest = min(found), statistics.median(found), max(found)
            each = f"{lowest:.0f}, {median:.0f}, {highest:.0f}"
            print(f"| {count} | {number} | {calls / seconds:.0f} | {each} | {highest / lowest:.2f} |", flush=True)


@contextlib.contextmanager
def server(models: str, *options: str) -> Iterator[tuple[int, int]]:
    """Run a server on a free port of all addresses, and yield the port and the number of its process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    flags = ["--models", models, "--address", f"[::]:{port}", "--metrics-address", "127.0.0.1:0", "--anonymous"]
    process = subprocess.Popen([sys.executable, "-m", "xuanzang.server", *flags, "--log-level", "warning", *options])
    try:
        grpc.channel_ready_future(grpc.insecure_channel(f"127.0.0.1:{port}")).result(timeout=60)
        yield port, process.pid
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
    running = contextlib.nullcontext((arguments.port, None)) if arguments.port else server(arguments.models)
    with running as (port, pid):
        asyncio.run(measure(port, arguments.seconds, arguments.only, server=pid))


if __name__ == "__main__":
    main()
