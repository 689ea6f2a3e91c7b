"""Soak: load a server to 80% for hours; check its memory, its answers and what it releases.

    python -m benchmarks.soak.soak --minutes 60

The capacity is measured once, after a warm-up that makes all requests of each kind. Then come rounds of equal length
with the same calls at the same times, so that what differs between them is the server. Afterwards it is left idle.
Prints a line of progress and writes JSON and a chart. The exit status is 1 if memory, files or threads grow, a call
fails, an answer differs from an earlier one to the same request, or the idle server keeps its memory.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import platform
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.harness.bundled_model import MODELS, request_of, sentences
from benchmarks.harness.loads import percentile
from benchmarks.harness.processes import ServerProcess, cpu_times, free_address, share_of_others
from benchmarks.soak.callers import Callers, Ended
from benchmarks.soak.process_samples import ProcessSample, sample
from benchmarks.soak.soak_chart import draw
from benchmarks.soak.trends import BLOCKS, trend

LOAD_SHARE = 0.8
CAPACITY_CALLERS = 48
CAPACITY_SECONDS = 30.0
ROUNDS = BLOCKS * 5 // 4
WARM_UP_ROUNDS = ROUNDS - BLOCKS
"""Rounds at the start that no trend counts; each other one is a block of the trends."""
SEED = 2
MAX_OPEN_CALLS = 2 * CAPACITY_CALLERS
"""A shared machine may become slower: at this number of calls under way, due ones are left out, ..."""
LOWERED = 0.9
"""... and the next rounds have this multiple of the rate. It is never raised, because memory follows the load."""
IDLE_SECONDS = 60.0
IDLE_FACTOR = 1.2
"""Maximum of an idle server's memory, in warm sizes: that after start and a call of each kind."""
MAX_RSS_SLOPE = 1.0
"""MB per hour."""
MAX_CALLER_CPU = 0.5
"""Maximum share of one core that the callers may need: beyond, they and not the server are measured."""
HELD = ("rss_mb", "pss_mb", "python_mb", "fds", "threads", "cache_mb")


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Figures of some seconds of load."""

    seconds: float
    """End of the interval after the start of the soak."""
    process: ProcessSample
    calls_per_second: float
    p50_ms: float | None
    p99_ms: float | None
    failures: int
    """Calls that ended as none may, from the start."""


@dataclass(kw_only=True)
class Soak:
    """One run, as it goes."""

    callers: Callers
    pid: int
    metrics_address: str
    every: float
    """Seconds of an interval."""
    started: float = field(default_factory=time.perf_counter)
    intervals: list[Interval] = field(default_factory=list)
    ended: list[Ended] = field(default_factory=list)
    """All calls of the open loops."""
    rates: list[float] = field(default_factory=list)
    """Calls per second, one of each round."""

    async def load(self, seconds: float) -> None:
        """Put rounds of load on the server.

        Args:
            seconds: Length of all rounds.
        """
        await self.callers.fill(CAPACITY_CALLERS)
        rate = LOAD_SHARE * await self.callers.capacity(CAPACITY_SECONDS, CAPACITY_CALLERS)
        self.started = time.perf_counter()
        observing = asyncio.create_task(self._observe(seconds))
        for _ in range(ROUNDS):
            self.rates.append(rate)
            withheld = self.callers.record.withheld
            await self.callers.open_loop(rate, seconds / ROUNDS, most=MAX_OPEN_CALLS, seed=SEED)
            if self.callers.record.withheld > withheld:
                rate *= LOWERED
        observing.cancel()
        await self.callers.join()
        self.ended += self.callers.record.take()

    async def idle(self) -> list[ProcessSample]:
        """Leave the server alone and return a sample of each interval."""
        samples = []
        for number in range(round(IDLE_SECONDS / self.every)):
            await asyncio.sleep(self.every)
            samples.append(await self.sample())
            progress(f"idle for {(number + 1) * self.every:.0f} s: RSS {samples[-1].rss_mb:.0f} MB")
        return samples

    async def sample(self) -> ProcessSample:
        """Read what the server holds."""
        return await asyncio.to_thread(sample, self.pid, self.metrics_address)

    async def _observe(self, seconds: float) -> None:
        began = time.perf_counter()
        while True:
            await asyncio.sleep(self.every)
            process, now = await self.sample(), time.perf_counter()
            ended = self.callers.record.take()
            self.ended += ended
            latencies = [each.seconds for each in ended if each.code == "OK"]
            interval = Interval(
                seconds=now - self.started,
                process=process,
                calls_per_second=len(ended) / (now - began),
                p50_ms=1000 * percentile(latencies, 0.5) if latencies else None,
                p99_ms=1000 * percentile(latencies, 0.99) if latencies else None,
                failures=self.callers.record.failures.total(),
            )
            began = now
            self.intervals.append(interval)
            progress(
                f"{interval.seconds:.0f}/{seconds:.0f} s: {interval.calls_per_second:.0f} calls/s of "
                f"{self.rates[-1]:.0f}, p50 {interval.p50_ms or 0:.0f} p99 {interval.p99_ms or 0:.0f} ms, RSS "
                f"{process.rss_mb:.0f} MB, cache {process.cache_mb:.0f} MB, {process.fds} files, {process.threads} "
                f"threads, {interval.failures} failures {list(self.callers.record.failures)[:1] or ''}"
            )


def progress(line: str) -> None:
    """Replace the line of progress; print lines where standard error is no terminal."""
    sys.stderr.write(f"\r\033[K{line}" if sys.stderr.isatty() else f"{line}\n")
    sys.stderr.flush()


def faults_of(figures: dict[str, Any]) -> list[str]:
    """Return what a run did that no run may do."""
    slopes, idle, warm = figures["trends"], figures["idle"]["rss_mb"], figures["warm"]["rss_mb"]
    cpu_share = figures["callers"]["cpu_share"]
    faults = [f"{count} calls: {reason}" for reason, count in figures["failures"].items()]
    faults += [
        f"{name} grow by {slopes[name]['per_hour']:.1f}/h" for name in ("fds", "threads") if slopes[name]["grows"]
    ]
    if slopes["rss_mb"]["exceeds"]:
        faults.append(f"memory grows by {slopes['rss_mb']['per_hour']:.1f} MB/h")
    if idle > IDLE_FACTOR * warm:
        faults.append(f"idle, the server keeps {idle:.0f} MB; warm it had {warm:.0f} MB")
    if cpu_share > MAX_CALLER_CPU:
        faults.append(f"the callers needed {cpu_share:.2f} cores: they and not the server were measured")
    return faults


def trends_of(intervals: Sequence[Interval]) -> dict[str, dict[str, Any]]:
    """Return the trends of what a server holds and of its latency, after the warm-up."""
    counted = intervals[len(intervals) * WARM_UP_ROUNDS // ROUNDS :]
    series = {name: [float(getattr(each.process, name)) for each in counted] for name in HELD}
    series["rss_without_cache_mb"] = [each.process.rss_mb - each.process.cache_mb for each in counted]
    trends = {name: trend([each.seconds for each in counted], values) for name, values in series.items()}
    timed = [each for each in counted if each.p99_ms is not None]
    trends["p99_ms"] = trend([each.seconds for each in timed], [each.p99_ms or 0.0 for each in timed])
    return {
        name: {
            **dataclasses.asdict(each),
            "grows": each.grows(),
            "exceeds": each.exceeds(MAX_RSS_SLOPE),
            "is_resolved": each.is_resolved(MAX_RSS_SLOPE),
        }
        for name, each in trends.items()
    }


def latencies_of(ended: Sequence[Ended]) -> dict[str, dict[str, float]]:
    """Return latencies in milliseconds by length class, of all calls that were answered."""
    figures = {}
    for name in ("short", "medium", "long"):
        latencies = [1000 * each.seconds for each in ended if each.length == name and each.code == "OK"]
        if latencies:
            figures[name] = {
                "calls": len(latencies),
                **{f"p{round(100 * share)}_ms": percentile(latencies, share) for share in (0.5, 0.95, 0.99)},
            }
    return figures


async def run(soak: Soak, seconds: float) -> dict[str, Any]:
    """Carry out a soak and return its figures."""
    await soak.callers.warm_up()
    warm = await soak.sample()
    before, own = cpu_times(), time.process_time()
    await soak.load(seconds)
    elapsed, after, own = time.perf_counter() - soak.started, cpu_times(), time.process_time() - own
    server = (await soak.sample()).cpu_seconds - warm.cpu_seconds
    idle = await soak.idle()
    record = soak.callers.record
    late = [each.late for each in soak.ended]
    others = share_of_others(before, after) - server / (after.total - before.total)
    return {
        "processor": processor(),
        "minutes": elapsed / 60,
        "share_of_cpu_used_by_others": max(0.0, others),
        "rates_calls_per_second": soak.rates,
        "calls": len(soak.ended),
        "calls_left_out": record.withheld,
        "calls_per_second": statistics.fmean(each.calls_per_second for each in soak.intervals),
        "compared_answers": record.compared,
        "codes": {f"{kind}: {code}": count for (kind, code), count in sorted(record.codes.items())},
        "failures": dict(record.failures),
        "latency": latencies_of(soak.ended),
        "callers": {"cpu_share": own / elapsed, "late_p99_ms": 1000 * percentile(late, 0.99)},
        "warm": dataclasses.asdict(warm),
        "peak_rss_mb": max(each.process.rss_mb for each in soak.intervals),
        "idle": dataclasses.asdict(idle[-1]),
        "idle_samples": [dataclasses.asdict(each) for each in idle],
        "trends": trends_of(soak.intervals),
        "intervals": [dataclasses.asdict(each) for each in soak.intervals],
    }


def processor() -> str:
    """Return the name of the processor and the number of cores."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {len(names)} cores"


def summary(figures: dict[str, Any]) -> str:
    """Return the figures that people read first."""
    slopes, callers, failed = figures["trends"], figures["callers"], sum(figures["failures"].values())
    lines = [
        f"{figures['minutes']:.1f} minutes on {figures['processor']}",
        f"CPU used by others: {figures['share_of_cpu_used_by_others']:.0%}",
        f"calls: {figures['calls']}, {figures['calls_per_second']:.1f}/s; {failed} failed",
        f"calls left out while {MAX_OPEN_CALLS} were under way: {figures['calls_left_out']}",
        f"answers compared with an earlier one: {figures['compared_answers']}",
    ]
    for name, each in figures["latency"].items():
        quantiles = ", ".join(f"{key[:-3]} {each[key]:.0f}" for key in ("p50_ms", "p95_ms", "p99_ms"))
        lines.append(f"{name}: {quantiles} ms of {each['calls']} calls")
    for name, each in slopes.items():
        lines.append(f"{name}: {each['per_hour']:+.2f} per hour, 95% [{each['low']:+.2f}, {each['high']:+.2f}]")
    warm, idle = figures["warm"]["rss_mb"], figures["idle"]["rss_mb"]
    lines += [
        f"RSS: warm {warm:.0f} MB, peak {figures['peak_rss_mb']:.0f} MB, after {IDLE_SECONDS:.0f} s idle {idle:.0f} MB",
        f"callers: {callers['cpu_share']:.2f} cores, p99 sent {callers['late_p99_ms']:.0f} ms late",
    ]
    if not slopes["rss_mb"]["is_resolved"]:
        lines.append(f"too short or too noisy to tell the slope of memory from {MAX_RSS_SLOPE:g} MB/h")
    return "\n".join(lines)


async def soaked(arguments: argparse.Namespace) -> dict[str, Any]:
    """Start a server and callers, and carry out a soak."""
    address, metrics_address = free_address(), free_address()
    flags = [f"--models={arguments.models}", f"--address={address}", f"--metrics-address={metrics_address}"]
    texts = sentences()
    request = request_of(texts[0])
    command = ("-m", "xuanzang.server", *flags, "--log-level=warning")
    with ServerProcess(*command, address=address, request=request) as server:
        callers = Callers(address, texts, seed=1)
        soak = Soak(callers=callers, pid=server.pid, metrics_address=metrics_address, every=arguments.every)
        try:
            return await run(soak, 3600 * arguments.hours + 60 * arguments.minutes)
        finally:
            await callers.close()


def main() -> int:
    """Run the soak."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, default=MODELS, help="models directory")
    parser.add_argument("--hours", type=float, default=0.0)
    parser.add_argument("--minutes", type=float, default=0.0, help="added to the hours")
    parser.add_argument("--every", type=float, default=5.0, help="seconds between samples")
    parser.add_argument("--output", type=Path, default=Path("soak"), help="file to write, without .json and .svg")
    arguments = parser.parse_args()
    if 3600 * arguments.hours + 60 * arguments.minutes < 2 * ROUNDS * arguments.every:
        parser.error(f"give at least {2 * ROUNDS * arguments.every:.0f} seconds, by --hours or --minutes")
    figures = asyncio.run(soaked(arguments))
    figures["faults"] = faults_of(figures)
    arguments.output.with_suffix(".json").write_text(json.dumps(figures, indent=2, ensure_ascii=False) + "\n")
    draw(figures, arguments.output.with_suffix(".svg"))
    progress("")
    print(summary(figures))
    for fault in figures["faults"]:
        print(f"FAILED: {fault}")
    return 1 if figures["faults"] else 0


if __name__ == "__main__":
    sys.exit(main())
