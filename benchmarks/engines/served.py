"""Measurement of both engines behind gRPC, under the same loads in turn."""

from __future__ import annotations

import dataclasses
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from benchmarks.engines.measurement import ENGINES, PARALLELISM
from benchmarks.harness.bundled_model import ServedModel, our_server
from benchmarks.harness.loads import Callers, Load, LoadResult
from benchmarks.harness.processes import ServerProcess, free_address

CALLERS = 128
"""Callers of a closed loop, enough for two full batches and as many sentences waiting."""
NAMES = (20, 64)
"""Numbers of names that the callers of further closed loops have."""
SHARES = (0.3, 0.6, 0.9, 1.0)
"""Arrival rates of the open loops, as shares of the rate that saturates CTranslate2."""
CLOSED = "closed"
"""Closed loop of callers with one name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedModel(ServedModel):
    """Model as loaded by both servers. Its texts are single sentences, because CTranslate2's server does not split."""

    name: str
    ctranslate2: Path
    """Folder of the converted model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """Number and length of the measurements."""

    engine_rounds: int
    """Alternating measurements of each workload by each engine; medians count."""
    float32_beams: Sequence[int]
    """Beam sizes to measure in float32, which takes twice as long as int8."""
    rounds: int
    """Measurements of each load, one server after the other; medians count."""
    seconds: float
    """Duration of a load."""
    warm_up_seconds: float
    """Part of the duration at the start that does not count."""
    max_batches: Sequence[int]
    """Batch sizes to try for CTranslate2's server."""
    delays: Sequence[float]
    """Maximum waits for a full batch to try for CTranslate2's server, in seconds."""


FULL = Effort(
    engine_rounds=5,
    float32_beams=(1, 4),
    rounds=5,
    seconds=15,
    warm_up_seconds=3,
    max_batches=(8, 16, 32, 64),
    delays=(0, 0.005, 0.02),
)
QUICK = Effort(
    engine_rounds=3,
    float32_beams=(),
    rounds=1,
    seconds=4,
    warm_up_seconds=1,
    max_batches=(8, 32),
    delays=(0, 0.005),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batching:
    """Settings of CTranslate2's server."""

    workers: int
    threads: int
    max_batch: int
    delay: float
    """Maximum wait for a batch to fill, seconds."""

    def flags(self) -> list[str]:
        """Return the settings as command line flags."""
        return [f"--{name.replace('_', '-')}={value}" for name, value in dataclasses.asdict(self).items()]

    def __str__(self) -> str:
        """Return the settings as a phrase."""
        return (
            f"{self.workers} × {self.threads} workers × threads, batches of at most {self.max_batch}, "
            f"delay {1000 * self.delay:.0f} ms"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedRow:
    """Results of a load on both servers, medians of the rounds."""

    load: str
    """Name of the load: "closed", with the number of names, or the arrivals as a share of CTranslate2's saturation."""
    rate: float | None
    """Arrivals per second of the open loop."""
    results: Mapping[str, LoadResult]
    """Result, by engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedResult:
    """Results of one model."""

    model: str
    batching: Batching
    """Best settings of CTranslate2's server."""
    rows: Sequence[ServedRow]


def ctranslate2_server(model: ComparedModel, batching: Batching) -> ServerProcess:
    """Start CTranslate2's server."""
    address = free_address()
    tokenizer = str(model.bundle / "source.spm")
    command = ["-m", "benchmarks.engines.ctranslate2_server", str(model.ctranslate2), tokenizer, address]
    return ServerProcess(*command, *batching.flags(), address=address, request=model.request)


def measure_served(model: ComparedModel, effort: Effort, scratch: Path, flags: Sequence[str] = ()) -> ServedResult:
    """Measure a model behind both servers.

    Args:
        effort: Number and length of the measurements.
        scratch: Folder for the sentences of the load generator.
    """
    callers = Callers(model.texts, scratch)
    with ExitStack() as stack:
        batching = best_batching(model, effort, callers)
        print(f"{model.name}: CTranslate2 serves best with {batching}", file=sys.stderr)
        servers = {
            "xuanzang": stack.enter_context(our_server(model, *flags)),
            "ctranslate2": stack.enter_context(ctranslate2_server(model, batching)),
        }
        rows = [_measure_row(CLOSED, None, servers, effort, callers)]
        saturated = rows[0].results["ctranslate2"].sentences_per_second
        rows += [_measure_row(f"{CLOSED}, {names} names", None, servers, effort, callers, names) for names in NAMES]
        rows += [
            _measure_row(f"{share:.0%}", share * saturated, servers, effort, callers)
            for share in tqdm(SHARES, desc=f"{model.name} served", unit="load")
        ]
    return ServedResult(model=model.name, batching=batching, rows=rows)


def best_batching(model: ComparedModel, effort: Effort, callers: Callers) -> Batching:
    """Find the best settings of CTranslate2's server.

    Workers and threads are those with the most sentences per second at the largest batch size, which suits several
    threads best. The batch size is the one with the most sentences per second at these. The delay is the one with the
    lowest median latency at 60% of that rate.
    """
    load = Load(
        address="", rate=None, callers=CALLERS, seconds=effort.seconds / 2, warm_up_seconds=effort.seconds / 6, seed=0
    )

    def measure(batching: Batching, rate: float | None) -> LoadResult:
        with ctranslate2_server(model, batching) as server:
            return callers.call(dataclasses.replace(load, address=server.address, rate=rate))

    rates: dict[Batching, float] = {}

    def fastest(tried: Iterable[Batching]) -> Batching:
        new = [batching for batching in tried if batching not in rates]
        for batching in tqdm(new, desc=f"{model.name} batching of CTranslate2", unit="setting"):
            rates[batching] = measure(batching, None).sentences_per_second
        return max(rates, key=rates.__getitem__)

    greatest = max(effort.max_batches)
    best = fastest(
        Batching(workers=workers, threads=threads, max_batch=greatest, delay=0) for workers, threads in PARALLELISM
    )
    best = fastest(dataclasses.replace(best, max_batch=size) for size in effort.max_batches)
    delayed = [dataclasses.replace(best, delay=delay) for delay in effort.delays]
    latencies = {batching: measure(batching, 0.6 * rates[best]).p50_ms for batching in delayed}
    return min(latencies, key=latencies.__getitem__)


def _measure_row(
    name: str,
    rate: float | None,
    servers: Mapping[str, ServerProcess],
    effort: Effort,
    callers: Callers,
    names: int = 1,
) -> ServedRow:
    results: dict[str, list[LoadResult]] = {engine: [] for engine in ENGINES}
    for seed in range(effort.rounds):
        for engine in ENGINES:
            load = Load(
                address=servers[engine].address,
                rate=rate,
                callers=CALLERS,
                seconds=effort.seconds,
                warm_up_seconds=effort.warm_up_seconds,
                seed=seed,
                names=names,
            )
            results[engine].append(callers.call(load))
    return ServedRow(load=name, rate=rate, results={engine: medians(found) for engine, found in results.items()})


def medians(results: Sequence[LoadResult]) -> LoadResult:
    """Return the median of each figure, and the sums of requests and errors."""
    values = {
        field.name: [getattr(result, field.name) for result in results] for field in dataclasses.fields(LoadResult)
    }
    counted = {"requests", "errors"}
    return LoadResult(
        **{name: sum(found) if name in counted else statistics.median(found) for name, found in values.items()}
    )
