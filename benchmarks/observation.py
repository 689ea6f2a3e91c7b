"""Cost of traces and the access log: CPU time per sentence and rate at saturation, with them and without.

    python -m benchmarks.observation --rounds 6 --seconds 8

Servers with other settings run side by side and are loaded in turn, in another order each round; traces go to a
collector that reads nothing. Figures are medians of the rounds, ratios medians of the rounds' ratios to the server with
neither. All of the cost is outside the workers, whose own time varies more, with batches and neighbours, than what is
to be measured: the last column is the difference outside of them, in percent of the whole time per sentence. `--before`
adds a server of another checkout, which shows what the code costs when it is off. Prints a table.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import grpc

from benchmarks.engines.served import CALLERS
from benchmarks.harness.bundled_model import ServedModel, bundled_model, our_server
from benchmarks.harness.loads import Callers, Load
from benchmarks.harness.processes import ServerProcess, thread_cpu_seconds
from xuanzang.server.engine.hardware import usable_cores

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
# The last spans of a load are exported, and its lines written, before its CPU time is read.
FLUSH_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """Settings of one server."""

    name: str
    flags: Sequence[str] = ()
    sampled: float = 0.0
    """Share of the RPCs that are sampled."""
    checkout: Path | None = None


class Figures(NamedTuple):
    """Result of one load."""

    cpu: float
    """CPU time of the server per sentence, milliseconds."""
    outside: float
    """That outside of the workers: event loop, gRPC, exporter, log, milliseconds."""
    rate: float
    """Sentences per second."""


def modes(before: Path | None) -> list[Mode]:
    """Return the settings to compare, those with neither first."""
    log = ("--access-log", os.devnull)
    return [
        Mode(name="off"),
        Mode(name="traces of 1 %", flags=("--tracing",), sampled=0.01),
        Mode(name="traces of all", flags=("--tracing",), sampled=1.0),
        Mode(name="access log", flags=log),
        Mode(name="traces of all, access log", flags=("--tracing", *log), sampled=1.0),
        *([Mode(name="before", checkout=before)] if before else []),
    ]


def started(mode: Mode, model: ServedModel, endpoint: str) -> ServerProcess:
    """Return a server, to be entered."""
    variables = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
        "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
        "OTEL_TRACES_SAMPLER_ARG": str(mode.sampled),
        "OTEL_BSP_SCHEDULE_DELAY": "500",
    }
    return our_server(model, *mode.flags, checkout=mode.checkout, variables=variables)


@contextmanager
def collecting() -> Iterator[str]:
    """Run a collector that takes exports without reading them, and yield its endpoint."""
    server = grpc.server(ThreadPoolExecutor(1))
    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(lambda _request, _context: b"")
    _, service, method = EXPORT.split("/")
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stop(grace=None).wait()


def measure(server: ServerProcess, callers: Callers, *, seconds: float, seed: int) -> Figures:
    """Put a closed loop on a server; with the seed 0, a warm-up, requests may fail."""
    before = thread_cpu_seconds(server.pid)
    load = Load(address=server.address, rate=None, callers=CALLERS, seconds=seconds, warm_up_seconds=0.0, seed=seed)
    result = callers.call(load)
    if result.errors and seed:
        raise ValueError(f"{result.errors} requests failed")
    time.sleep(FLUSH_SECONDS)
    used = {thread: seconds - before.get(thread, 0.0) for thread, seconds in thread_cpu_seconds(server.pid).items()}
    # The main thread has the event loop; the busiest others are the workers.
    workers = sorted((used[thread] for thread in used if thread != server.pid), reverse=True)[: usable_cores()]
    total = sum(used.values())
    cpu, outside = (1000 * seconds / result.requests for seconds in (total, total - sum(workers)))
    return Figures(cpu, outside, result.sentences_per_second)


def ratios(found: Mapping[str, Sequence[Figures]]) -> Iterator[str]:
    """Yield a line of a table for each mode."""
    base = found["off"]
    yield f"{'':28}{'CPU ms/sentence':>17}{'of off':>9}{'sentences/s':>13}{'of off':>9}{'outside ms':>12}{'cost':>8}"
    for name, figures in found.items():
        cpu, outside, rate = (statistics.median(values) for values in zip(*figures, strict=True))
        pairs = list(zip(figures, base, strict=True))
        cpu_ratio, rate_ratio = (statistics.median(each[place] / off[place] for each, off in pairs) for place in (0, 2))
        cost = statistics.median((each.outside - off.outside) / off.cpu for each, off in pairs)
        yield f"{name:28}{cpu:17.3f}{cpu_ratio:9.3f}{rate:13.1f}{rate_ratio:9.3f}{outside:12.3f}{cost:8.2%}"


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6, help="loads of each server")
    parser.add_argument("--seconds", type=float, default=8.0, help="length of a load")
    parser.add_argument("--before", type=Path, help="root of another checkout, with its kernels built")
    parser.add_argument("--only", help="compare the server with neither with the one of this name")
    arguments = parser.parse_args()
    model = bundled_model()
    with ExitStack() as stack:
        callers = Callers(model.texts, Path(stack.enter_context(tempfile.TemporaryDirectory())))
        endpoint = stack.enter_context(collecting())
        compared = [
            mode for mode in modes(arguments.before) if arguments.only in (None, mode.name) or mode.name == "off"
        ]
        servers = {mode.name: stack.enter_context(started(mode, model, endpoint)) for mode in compared}
        found: dict[str, list[Figures]] = {name: [] for name in servers}
        for server in servers.values():
            measure(server, callers, seconds=2.0, seed=0)
        for seed in range(1, arguments.rounds + 1):
            names = list(servers)
            for name in names[seed % len(names) :] + names[: seed % len(names)]:
                found[name].append(measure(servers[name], callers, seconds=arguments.seconds, seed=seed))
    print("\n".join(ratios(found)))


if __name__ == "__main__":
    main()
