"""Cost of traces and the access log: CPU time per sentence and rate at saturation, with them and without.

    PYTHONPATH=tests/benchmark python tests/benchmark/observation.py --rounds 6 --seconds 8

Servers with other settings run side by side and are loaded in turn, in another order each round; traces go to a
collector that reads nothing. Each figure is the median of the rounds' ratios to the server with neither. `--before`
adds a server of another checkout, whose ratio shows what the code costs when it is off.
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
from unittest import mock

import grpc
from load import Load
from processes import ServerProcess
from served import CALLERS, HERE, Callers, ServedModel, our_server, single_sentences

ROOT = HERE.parents[1]
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
ROOMS = ("proto", "kernels", "model", "export", "server", "client")
# The last spans of a load are exported, and its lines written, before its CPU time is read.
FLUSH_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """Settings of one server."""

    name: str
    flags: Sequence[str] = ()
    sampled: float = 0.0
    """Share of the RPCs that are sampled."""
    checkout: Path = ROOT


class Figures(NamedTuple):
    """Result of one load."""

    cpu_milliseconds: float
    """CPU time of the server per sentence."""
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


@contextmanager
def started(mode: Mode, model: ServedModel, endpoint: str) -> Iterator[ServerProcess]:
    """Run a server."""
    environment = {
        "PYTHONPATH": os.pathsep.join(str(mode.checkout / room / "src") for room in ROOMS),
        "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
        "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
        "OTEL_TRACES_SAMPLER_ARG": str(mode.sampled),
        "OTEL_BSP_SCHEDULE_DELAY": "500",
    }
    with mock.patch.dict(os.environ, environment):
        server = our_server(model, *mode.flags)
    with server:
        yield server


def collect() -> str:
    """Start a collector that takes exports without reading them; return its endpoint."""
    server = grpc.server(ThreadPoolExecutor(1))
    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(lambda _request, _context: b"")
    _, service, method = EXPORT.split("/")
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return f"http://127.0.0.1:{port}"


def measure(server: ServerProcess, callers: Callers, *, seconds: float, seed: int) -> Figures:
    """Put a closed loop on a server."""
    before = cpu_seconds(server)
    load = Load(address=server.address, rate=None, callers=CALLERS, seconds=seconds, warm_up_seconds=0.0, seed=seed)
    result = callers.call(load)
    if result.errors:
        raise ValueError(f"{result.errors} requests failed")
    time.sleep(FLUSH_SECONDS)
    return Figures(1000 * (cpu_seconds(server) - before) / result.requests, result.sentences_per_second)


def cpu_seconds(server: ServerProcess) -> float:
    """Return the CPU time that a process has used so far."""
    fields = Path(f"/proc/{server.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ratios(found: Mapping[str, Sequence[Figures]]) -> Iterator[str]:
    """Yield a line of a table for each mode."""
    base = found["off"]
    yield f"{'':28}{'CPU ms per sentence':>20}{'of off':>9}{'sentences/s':>13}{'of off':>9}"
    for name, figures in found.items():
        cpu = statistics.median(each.cpu_milliseconds for each in figures)
        rate = statistics.median(each.rate for each in figures)
        pairs = list(zip(figures, base, strict=True))
        cpu_ratio = statistics.median(each.cpu_milliseconds / off.cpu_milliseconds for each, off in pairs)
        rate_ratio = statistics.median(each.rate / off.rate for each, off in pairs)
        yield f"{name:28}{cpu:20.3f}{cpu_ratio:9.3f}{rate:13.1f}{rate_ratio:9.3f}"


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6, help="loads of each server")
    parser.add_argument("--seconds", type=float, default=8.0, help="length of a load")
    parser.add_argument("--before", type=Path, help="root of another checkout, with its kernels built")
    arguments = parser.parse_args()
    lines = (HERE / "sentences.tsv").read_text(encoding="utf-8").splitlines()
    bundle = max((ROOT / "server/models/zh-en").iterdir(), key=lambda folder: int(folder.name))
    texts = single_sentences(line.split("\t")[0] for line in lines)
    model = ServedModel(name="zh-en", bundle=bundle, ctranslate2=bundle, texts=texts)
    with ExitStack() as stack:
        callers = Callers(stack, texts, Path(stack.enter_context(tempfile.TemporaryDirectory())))
        endpoint = collect()
        compared = modes(arguments.before)
        servers = {mode.name: stack.enter_context(started(mode, model, endpoint)) for mode in compared}
        found: dict[str, list[Figures]] = {name: [] for name in servers}
        for server in servers.values():
            measure(server, callers, seconds=2.0, seed=0)
        for seed in range(arguments.rounds):
            names = list(servers)
            for name in names[seed % len(names) :] + names[: seed % len(names)]:
                found[name].append(measure(servers[name], callers, seconds=arguments.seconds, seed=seed))
    print("\n".join(ratios(found)))


if __name__ == "__main__":
    main()
