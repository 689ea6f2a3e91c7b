"""Goodput under overload: how much of its capacity a server turns into answers in time when callers ask for more.

Measures the capacity with a closed loop, then puts open loops of several times the capacity on the server, each with
requests of one or several sentences and with mixed deadlines. Prints a table and, with --json, writes the figures.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import dataclasses
import json
import random
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import grpc
from load import arrival_times, percentile
from processes import METHOD, ServerProcess, free_address

from xuanzang.translation.v1 import status_pb2, translation_pb2

CAPACITY_CALLERS = 96
LENGTHS = (4, 60)
"""Minimum and maximum characters of the sentences that are sent."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Overload:
    """One open loop."""

    multiple: float
    """Offered sentences per second, in capacities."""
    sentences: int
    """Sentences of each request."""
    deadlines: tuple[float, ...]
    """Deadlines that requests have by chance, seconds."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Figures of one open loop."""

    overload: Overload
    offered: int
    """Requests that were due."""
    goodput: float
    """Sentences answered in time per second, as a share of the capacity."""
    codes: dict[str, int]
    """Requests by status code."""
    expired_share: float
    """Share of the admitted requests, those not refused, that were not answered in time."""
    refusal_p50_ms: float
    refusal_p95_ms: float
    answer_p95_s: float


class Callers:
    """Callers of one server, over a few connections."""

    def __init__(self, address: str, texts: Sequence[str], seed: int) -> None:
        self._random = random.Random(seed)
        self._texts = texts
        self._channels = [
            grpc.aio.insecure_channel(address, (("grpc.use_local_subchannel_pool", 1),)) for _ in range(4)
        ]
        self._calls: list[grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]] = [
            channel.unary_unary(METHOD) for channel in self._channels
        ]

    async def close(self) -> None:
        """Close the connections."""
        for channel in self._channels:
            await channel.close()

    def _request(self, sentences: int) -> bytes:
        contents = [self._random.choice(self._texts) for _ in range(sentences)]
        return translation_pb2.TranslateTextRequest(contents=contents).SerializeToString()

    async def call(self, sentences: int, seconds: float) -> tuple[str, float, float | None]:
        """Return code, seconds, and the advised wait of a refusal."""
        started = time.perf_counter()
        try:
            await self._random.choice(self._calls)(self._request(sentences), timeout=seconds)
        except grpc.aio.AioRpcError as error:
            return error.code().name, time.perf_counter() - started, _advised(error)
        return "OK", time.perf_counter() - started, None

    async def capacity(self, seconds: float, sentences: int) -> float:
        """Return sentences per second of a closed loop that keeps the server busy."""
        done = 0
        started = time.perf_counter()
        warm = started + 0.3 * seconds

        async def repeat() -> None:
            nonlocal done
            while time.perf_counter() < started + seconds:
                code, _, _ = await self.call(sentences, 60.0)
                if code == "OK" and time.perf_counter() > warm:
                    done += sentences

        await asyncio.gather(*(repeat() for _ in range(max(4, CAPACITY_CALLERS // sentences))))
        return done / (time.perf_counter() - warm)

    async def overload(self, overload: Overload, capacity: float, seconds: float) -> Outcome:
        """Put an open loop on the server."""
        rate = overload.multiple * capacity / overload.sentences
        started = time.perf_counter()
        tasks: list[asyncio.Task[tuple[str, float, float | None]]] = []
        for due in arrival_times(rate, seconds, self._random.randrange(2**31)):
            if (wait := started + due - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            timeout = self._random.choice(overload.deadlines)
            tasks.append(asyncio.create_task(self.call(overload.sentences, timeout)))
        sending = time.perf_counter() - started
        results = await asyncio.gather(*tasks)
        return _outcome(overload, results, capacity, sending)


def _outcome(
    overload: Overload, results: Sequence[tuple[str, float, float | None]], capacity: float, seconds: float
) -> Outcome:
    codes = collections.Counter(code for code, _, _ in results)
    refusals = sorted(spent for code, spent, _ in results if code == "RESOURCE_EXHAUSTED")
    answers = sorted(spent for code, spent, _ in results if code == "OK")
    admitted = len(results) - codes["RESOURCE_EXHAUSTED"]
    # What is admitted last is answered after the last is sent; the tail counts as time, too.
    busy = seconds + (statistics.mean(answers) if answers else 0.0)
    return Outcome(
        overload=overload,
        offered=len(results),
        goodput=overload.sentences * len(answers) / busy / capacity,
        codes=dict(codes),
        expired_share=1 - len(answers) / admitted if admitted else 0.0,
        refusal_p50_ms=1000 * percentile(refusals, 0.5) if refusals else 0.0,
        refusal_p95_ms=1000 * percentile(refusals, 0.95) if refusals else 0.0,
        answer_p95_s=percentile(answers, 0.95) if answers else 0.0,
    )


def _advised(error: grpc.aio.AioRpcError) -> float | None:
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            for detail in status_pb2.Status.FromString(bytes(value)).details:  # type: ignore[arg-type]  # "-bin" is bytes
                if detail.type_url.endswith("RetryInfo"):
                    retry = status_pb2.RetryInfo.FromString(detail.value)
                    return retry.retry_delay.ToTimedelta().total_seconds()
    return None


async def measure(address: str, texts: Sequence[str], args: argparse.Namespace) -> list[Outcome]:
    """Measure the capacity before each overload, and what comes of that."""
    outcomes = []
    callers = Callers(address, texts, seed=1)
    for sentences in args.sentences:
        for multiple in args.multiples:
            capacity = await callers.capacity(args.seconds, sentences)
            deadlines = tuple(args.deadlines)
            overload = Overload(multiple=multiple, sentences=sentences, deadlines=deadlines)
            outcome = await callers.overload(overload, capacity, args.seconds)
            print(
                f"{sentences} sentences, {multiple:g} x {capacity:.0f}/s: goodput {outcome.goodput:.2f}, expired "
                f"{outcome.expired_share:.3f}, refusals p50 {outcome.refusal_p50_ms:.0f} p95 "
                f"{outcome.refusal_p95_ms:.0f} ms, answers p95 {outcome.answer_p95_s:.2f} s, {outcome.codes}",
                flush=True,
            )
            outcomes.append(outcome)
    await callers.close()
    return outcomes


def main() -> None:
    """Start a server, unless one is named, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("texts", type=Path, help="file with a sentence a line")
    parser.add_argument("--models", default="server/models", help="folder of bundles of the server to start")
    parser.add_argument("--address", help="address of a running server, instead of starting one")
    parser.add_argument("--multiples", type=float, nargs="+", default=[2, 5, 13])
    parser.add_argument("--sentences", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--deadlines", type=float, nargs="+", default=[2, 5, 10], help="drawn by chance, seconds")
    parser.add_argument("--seconds", type=float, default=20, help="of each loop")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    lines = args.texts.read_text(encoding="utf-8").splitlines()
    texts = [line for line in lines if LENGTHS[0] <= len(line) <= LENGTHS[1]]
    if args.address:
        outcomes = asyncio.run(measure(args.address, texts, args))
    else:
        address = free_address()
        request = translation_pb2.TranslateTextRequest(contents=texts[:1]).SerializeToString()
        flags = ["--models", args.models, "--address", address, "--metrics-address", "127.0.0.1:0"]
        flags += ["--log-level", "warning"]
        with ServerProcess("-m", "xuanzang.server", *flags, address=address, request=request):
            outcomes = asyncio.run(measure(address, texts, args))
    if args.json:
        args.json.write_text(json.dumps([dataclasses.asdict(outcome) for outcome in outcomes], indent=2) + "\n")


if __name__ == "__main__":
    main()
