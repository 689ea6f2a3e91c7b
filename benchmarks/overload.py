"""Goodput under overload: how much of its capacity a server turns into answers in time when callers ask for more.

    python -m benchmarks.overload FILE-WITH-A-SENTENCE-A-LINE [--callers sdk]

Measures the capacity with a closed loop, then puts open loops of several times the capacity on the server, each with
requests of one or several sentences and with mixed deadlines. The callers are HTTP/2 frames on sockets, which take
little of the cores that they share with the server, or the SDK. Prints a table and, with --json, writes the figures.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import dataclasses
import gc
import json
import random
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NoReturn

from benchmarks.harness.bundled_model import ServedModel, newest_bundle, our_server
from benchmarks.harness.loads import percentile
from benchmarks.harness.processes import cpu_seconds
from benchmarks.overload_callers import NOT_SENT, Callers, LightCallers, Result, SdkCallers, admitted_after
from xuanzang.loadtest.loops import closed_loop, due_times

CAPACITY_CALLERS = 96
LENGTHS = (4, 60)
"""Minimum and maximum characters of the sentences that are sent."""
REFUSED = "RESOURCE_EXHAUSTED"
# One of this number of refused calls is repeated after the advised time.
RETRIED = 20
# Seconds between callers' looks at clock and sockets: to wake up for each of thousands of calls in a second would
# take more of the cores that they share with the server than the calls do. Latencies are as much too long at most.
TICK = 0.001
# Longer than a refusal takes: calls without an answer by then were admitted.
TRY_SECONDS = 0.1


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
    efficiency: float
    """Sentences answered in time per processor second of the server, as a share of the same without overload: what the
    goodput would be if other work left the server as much of the processor as before; 0 if it is not known."""
    codes: dict[str, int]
    """Requests by status code."""
    expired_share: float
    """Share of the admitted requests, those not refused, that were not answered in time."""
    refusal_p50_ms: float
    refusal_p95_ms: float
    not_sent_p95_ms: float
    """Time that a call takes which the SDK holds back."""
    answer_p95_s: float
    retried: int
    """Refused calls that were made again after the advised time."""
    retried_share: float
    """Share of them that was admitted then, among all the others."""
    advised_by_true: list[float]
    """Advised time of calls refused at the end, by the time after which one like them was admitted, all others gone."""
    caller_cores: float
    """Processor seconds of the callers for each second."""
    server_cores: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """Answers of a busy server."""

    per_second: float
    """Sentences per second."""
    per_cpu_second: float
    """Sentences per processor second of the server; 0 if it is not known."""


class Measurement:
    """Loads on one server.

    Args:
        pid: Process of the server; None: of this machine's own processes only the callers' times are measured.
    """

    def __init__(self, callers: Callers, pid: int | None) -> None:
        self._callers = callers
        self._pid = pid
        self._random = random.Random(1)

    async def capacity(self, seconds: float, sentences: int) -> Capacity:
        """Measure a closed loop that keeps the server busy."""
        done = everything = 0
        _, before = self._cpu_seconds()
        started = time.perf_counter()
        warm = started + 0.3 * seconds

        async def call(due: float) -> None:
            nonlocal done, everything
            result = await self._callers.call(sentences, 60.0, due)
            if result.code == "OK":
                everything += sentences
                done += sentences * (warm < time.perf_counter() < started + seconds)

        callers = max(4, CAPACITY_CALLERS // sentences)
        await closed_loop(call, callers=callers, is_over=lambda: time.perf_counter() >= started + seconds)
        used = self._cpu_seconds()[1] - before
        return Capacity(per_second=done / (0.7 * seconds), per_cpu_second=everything / used if used else 0.0)

    async def overload(self, overload: Overload, capacity: Capacity, seconds: float) -> Outcome:
        """Put an open loop on the server."""
        rate = overload.multiple * capacity.per_second / overload.sentences
        before, started = self._cpu_seconds(), time.perf_counter()
        tasks: list[asyncio.Task[Result]] = []
        retries: list[asyncio.Task[bool | None]] = []
        async with resting():
            async for due in due_times(rate, seconds, random.Random(self._random.randrange(2**31)), tick=TICK):
                timeout = self._random.choice(overload.deadlines)
                tasks.append(asyncio.create_task(self._callers.call(overload.sentences, timeout, due)))
                if len(tasks) % RETRIED == 0:
                    retries.append(asyncio.create_task(self._retry(overload.sentences, tasks[-1])))
            sending, after = time.perf_counter() - started, self._cpu_seconds()
            accuracy = await self._accuracy(overload)
            results = await asyncio.gather(*tasks)
        retried = [each for each in await asyncio.gather(*retries) if each is not None]
        cores = [(later - earlier) / sending for earlier, later in zip(before, after, strict=True)]
        used = self._cpu_seconds()[1] - before[1]
        outcome = _outcome(overload, results, capacity, sending, retried=retried, accuracy=accuracy, cores=cores)
        answered = overload.sentences * outcome.codes.get("OK", 0)
        efficiency = answered / used / capacity.per_cpu_second if used and capacity.per_cpu_second else 0.0
        return dataclasses.replace(outcome, efficiency=efficiency)

    async def _retry(self, sentences: int, call: Awaitable[Result]) -> bool | None:
        """Make a refused call again when it was advised; return whether it was admitted; None: it was not refused."""
        first = await call
        if first.code != REFUSED or first.advised is None:
            return None
        await asyncio.sleep(first.advised)
        return (await self._callers.call(sentences, first.timeout, time.perf_counter())).code != REFUSED

    async def _accuracy(self, overload: Overload) -> list[float]:
        """Return the advised times of the last calls by the true ones, while no others come."""

        async def ratio(timeout: float) -> float | None:  # noqa: ASYNC109 - sent as a deadline
            refused = await self._callers.call(overload.sentences, timeout, time.perf_counter())
            if refused.code != REFUSED or not refused.advised:
                return None
            true = await admitted_after(self._callers, overload.sentences, refused, interval=TRY_SECONDS)
            # Shorter times than those between two tries cannot be told apart.
            return None if true is None or max(true, refused.advised) < 3 * TRY_SECONDS else refused.advised / true

        ratios = await asyncio.gather(*(ratio(timeout) for timeout in overload.deadlines))
        return [each for each in ratios if each is not None]

    def _cpu_seconds(self) -> tuple[float, float]:
        """Return the processor seconds of the callers and of the server so far."""
        return time.process_time(), 0.0 if self._pid is None else cpu_seconds(self._pid)


@asynccontextmanager
async def resting() -> AsyncIterator[None]:
    """Let the event loop make a turn in each tick; its fault ends the enclosed work."""
    async with asyncio.TaskGroup() as group:
        rest = group.create_task(_rest())
        yield
        rest.cancel()


async def _rest() -> NoReturn:
    turn = time.perf_counter()
    while True:
        # Behind its time it does not rest.
        turn = max(turn + TICK, time.perf_counter())
        if (left := turn - time.perf_counter()) > 0:
            time.sleep(left)  # noqa: ASYNC251 - nothing else is to be done meanwhile
        await asyncio.sleep(0)


def _outcome(
    overload: Overload,
    results: Sequence[Result],
    capacity: Capacity,
    seconds: float,
    *,
    retried: Sequence[bool],
    accuracy: list[float],
    cores: Sequence[float],
) -> Outcome:
    codes = collections.Counter(result.code for result in results)
    answers = _seconds(results, "OK")
    refusals, not_sent = _seconds(results, REFUSED), _seconds(results, NOT_SENT)
    admitted = len(results) - len(refusals) - len(not_sent)
    # The last admitted calls are answered after the last is sent; the tail counts as time, too.
    busy = seconds + (statistics.mean(answers) if answers else 0.0)
    return Outcome(
        overload=overload,
        offered=len(results),
        goodput=overload.sentences * len(answers) / busy / capacity.per_second,
        efficiency=0.0,
        codes=dict(codes),
        expired_share=1 - len(answers) / admitted if admitted else 0.0,
        refusal_p50_ms=percentile(refusals, 0.5) * 1000,
        refusal_p95_ms=percentile(refusals, 0.95) * 1000,
        not_sent_p95_ms=percentile(not_sent, 0.95) * 1000,
        answer_p95_s=percentile(answers, 0.95),
        retried=len(retried),
        retried_share=sum(retried) / len(retried) if retried else 0.0,
        advised_by_true=accuracy,
        caller_cores=cores[0],
        server_cores=cores[1],
    )


def _seconds(results: Sequence[Result], code: str) -> list[float]:
    return [result.seconds for result in results if result.code == code]


def show(outcome: Outcome, capacity: Capacity) -> None:
    """Print the figures of an open loop."""
    load = outcome.overload
    print(
        f"{load.sentences} sentences, {load.multiple:g} x {capacity.per_second:.0f}/s: goodput {outcome.goodput:.2f}, "
        f"per processor second {outcome.efficiency:.2f}, expired "
        f"{outcome.expired_share:.3f}, refusals p50 {outcome.refusal_p50_ms:.0f} p95 {outcome.refusal_p95_ms:.0f} ms, "
        f"not sent p95 {outcome.not_sent_p95_ms:.1f} ms, answers p95 {outcome.answer_p95_s:.2f} s, "
        f"retried {outcome.retried} admitted {outcome.retried_share:.2f}, advised/true "
        f"{[round(each, 2) for each in outcome.advised_by_true]}, "
        f"cores {outcome.caller_cores:.2f} + {outcome.server_cores:.2f}, {outcome.codes}",
        flush=True,
    )


async def measure(address: str, pid: int | None, texts: Sequence[str], args: argparse.Namespace) -> list[Outcome]:
    """Measure the capacity before each overload, and the goodput."""
    outcomes = []
    light: Callers = LightCallers(texts)
    sdk = SdkCallers(texts, throttle=args.callers == "sdk")
    chosen = light if args.callers == "light" else sdk
    for callers in dict.fromkeys((light, chosen)):
        await callers.open(address)
    for sentences in args.sentences:
        for multiple in args.multiples:
            capacity = await Measurement(light, pid).capacity(args.seconds, sentences)
            overload = Overload(multiple=multiple, sentences=sentences, deadlines=tuple(args.deadlines))
            outcome = await Measurement(chosen, pid).overload(overload, capacity, args.seconds)
            show(outcome, capacity)
            outcomes.append(outcome)
    for callers in dict.fromkeys((light, chosen)):
        await callers.close()
    return outcomes


def main() -> None:
    """Start a server, unless one is named, and measure."""
    # Calls that are kept for the figures are no garbage, but would be looked at again and again.
    gc.disable()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", type=Path, help="file with a sentence a line")
    parser.add_argument("--bundle", type=Path, default=newest_bundle(), help="bundle of the server to start")
    parser.add_argument("--address", help="address of a running server, instead of starting one")
    parser.add_argument("--multiples", type=float, nargs="+", default=[2, 5, 13])
    parser.add_argument("--sentences", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--deadlines", type=float, nargs="+", default=[2, 5, 10], help="drawn by chance, seconds")
    parser.add_argument("--seconds", type=float, default=20, help="of each loop")
    parser.add_argument(
        "--callers",
        choices=["light", "sdk", "sdk-unthrottled"],
        default="light",
        help="frames on sockets, or the SDK, with its throttle or without",
    )
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    lines = args.texts.read_text(encoding="utf-8").splitlines()
    texts = [line for line in lines if LENGTHS[0] <= len(line) <= LENGTHS[1]]
    if args.address:
        outcomes = asyncio.run(measure(args.address, None, texts, args))
    else:
        with our_server(ServedModel(bundle=args.bundle, texts=texts)) as server:
            outcomes = asyncio.run(measure(server.address, server.pid, texts, args))
    if args.json:
        args.json.write_text(json.dumps([dataclasses.asdict(outcome) for outcome in outcomes], indent=2) + "\n")


if __name__ == "__main__":
    main()
