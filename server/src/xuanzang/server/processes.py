"""Several servers on one address: the parent that starts, watches and restarts them.

    parent                                    server i of N, each on the same address (SO_REUSEPORT)
    ├ starts the first, then the others  ──►  loads its models                          ──► loaded
    ├ lets all answer together           ◄──► open, serving
    ├ passes on changes to all           ◄──► change: load, unload, reload
    ├ adds up their metrics              ───► GET /metrics of each, with the label `process`
    ├ restarts ended servers, with back-off
    └ forwards SIGTERM, SIGINT, SIGQUIT, SIGHUP

The parent imports no gRPC and opens no model. A server whose line breaks has lost its parent, and drains.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from itertools import pairwise
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from xuanzang.server.access.quota_counts import SharedCounts
from xuanzang.server.engine.hardware import cache_bytes, memory_limit, usable_cores
from xuanzang.server.member import VARIABLE, Line, Message
from xuanzang.server.metrics_endpoint import MetricsEndpoint
from xuanzang.server.settings import Settings, split_address

_LOGGER = logging.getLogger(__name__)

_MEGABYTE = 10**6
_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
_FIRST_BACK_OFF_SECONDS, _MAX_BACK_OFF_SECONDS = 0.5, 30.0
# A server that ran for so long has started well.
_STEADY_SECONDS = 60.0
# Beyond its own drain a server may take so long to end.
_KILLED_AFTER_SECONDS = 10.0
_SCRAPE_SECONDS = 3.0
_MAX_SCRAPE_BYTES = 32 * 2**20
_OPENMETRICS = "application/openmetrics-text; version=1.0.0"


@dataclass(kw_only=True, eq=False)
class _Process:
    """A server as its parent sees it."""

    number: int
    cores: frozenset[int]
    """Cores that it may use; none for all."""
    running: asyncio.subprocess.Process | None = None
    line: Line | None = None
    metrics_port: int = 0
    is_loaded: asyncio.Event = field(default_factory=asyncio.Event)
    is_serving: asyncio.Event = field(default_factory=asyncio.Event)
    restarts: int = 0
    failures: int = 0
    """Ends in a row, each soon after its start."""


class Parent:
    """Starts the servers, watches them, and ends with them."""

    def __init__(self, settings: Settings, flags: Sequence[str]) -> None:
        """Take the settings and the flags that they were read from, which the servers get, too."""
        self._settings, self._flags = settings, flags
        count = settings.process_count
        self._processes = [_Process(number=number, cores=cores) for number, cores in enumerate(_shares(count))]
        self._stopping = asyncio.Event()
        self._is_open = False
        self._folder = tempfile.TemporaryDirectory(prefix="xuanzang-")
        self._quotas = SharedCounts(Path(self._folder.name) / "quotas", process=0)
        self._changes: dict[int, tuple[_Process, int, set[int], list[str]]] = {}

    async def run(self) -> int:
        """Serve until a signal; return the exit status.

        Raises:
            OSError: The address or that of the metrics is taken, or the system has no SO_REUSEPORT.
        """
        with ExitStack() as held:
            addresses = {
                name: held.enter_context(_held(address))
                for name in ("address", "admin_address", "health_address")
                if (address := getattr(self._settings, name)) is not None
            }
            self._settings = self._settings.model_copy(update=addresses)
            registry = CollectorRegistry()
            registry.register(_SummedMetrics(self._processes))
            metrics = MetricsEndpoint(registry, **split_address(self._settings.metrics_address)._asdict())
            _LOGGER.info(
                "listening", extra={"port": split_address(addresses["address"]).port, "metrics_port": metrics.port}
            )
            loop = asyncio.get_running_loop()
            for number in (*_FORWARDED, signal.SIGHUP):
                loop.add_signal_handler(number, self._forward, number)
            try:
                return await self._serve()
            finally:
                metrics.stop()
                self._folder.cleanup()

    async def _serve(self) -> int:
        first, *others = self._processes
        keeping = [asyncio.create_task(self._keep(first))]
        # The first packs weights and tries bundles; the others find both done.
        if is_loaded := await _have_happened([first.is_loaded], keeping):
            keeping += [asyncio.create_task(self._keep(each)) for each in others]
            is_loaded = await _have_happened([each.is_loaded for each in others], keeping)
        if not is_loaded:
            self._forward(signal.SIGTERM)
        else:
            self._is_open = True
            for each in self._processes:
                self._open(each)
            if await _have_happened([each.is_serving for each in self._processes], keeping):
                _LOGGER.info("serving", extra={"processes": len(self._processes)})
        statuses = await asyncio.gather(*keeping)
        return max(statuses)

    async def _keep(self, process: _Process) -> int:
        """Run a server until a stop, again and again; return its last exit status."""
        while True:
            began = time.monotonic()
            status = await self._run_once(process)
            if self._stopping.is_set():
                return max(status, 0)
            facts = {"server": process.number, "reason": _ending(status)}
            if not self._is_open:
                # The cause of a failed start would fail the next one, too.
                _LOGGER.error("a server did not start", extra=facts)
                return status or 1
            steady = time.monotonic() - began > _STEADY_SECONDS
            process.failures = 0 if steady else process.failures + 1
            # The first time at once, because callers wait.
            again = min(max(process.failures - 1, 0), 10)
            pause = min(_FIRST_BACK_OFF_SECONDS * (2**again - 1), _MAX_BACK_OFF_SECONDS)
            _LOGGER.error("a server ended and is started again", extra=facts | {"seconds": pause})
            self._quotas.forget(process.number)
            process.restarts += 1
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause)
                return 0

    async def _run_once(self, process: _Process) -> int:
        """Run a server to its end, and return its status: below 0 the signal that ended it."""
        ours, theirs = socket.socketpair()
        process.is_loaded.clear()
        process.is_serving.clear()
        process.metrics_port = 0
        membership = {"process": process.number, "processes": len(self._processes), "line": theirs.fileno()}
        environment = {**os.environ, VARIABLE: json.dumps({**membership, "quotas": f"{self._folder.name}/quotas"})}
        command = [sys.executable, "-m", "xuanzang.server", *self._flags, *self._flags_of(process)]
        with _cores(process.cores):
            process.running = await asyncio.create_subprocess_exec(
                *command, env=environment, pass_fds=[theirs.fileno()], start_new_session=True
            )
        theirs.close()
        process.line = await Line.over(ours)
        following = asyncio.create_task(self._follow(process, process.line))
        if self._stopping.is_set():
            process.running.terminate()
        status = await self._ended(process.running)
        process.line.close()
        following.cancel()
        process.running = process.line = None
        for change in [each for each, (_, _, waiting, _) in self._changes.items() if process.number in waiting]:
            self._note(change, process.number, f"process {process.number} ended")
        return status

    async def _ended(self, running: asyncio.subprocess.Process) -> int:
        ending, stopping = asyncio.create_task(running.wait()), asyncio.create_task(self._stopping.wait())
        await asyncio.wait((ending, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        done, _ = await asyncio.wait((ending,), timeout=self._settings.drain_timeout_seconds + _KILLED_AFTER_SECONDS)
        if not done:
            _LOGGER.error("a server did not end in time and is killed", extra={"pid": running.pid})
            running.kill()
        return await ending

    def _flags_of(self, process: _Process) -> Iterator[str]:
        """Yield a server's flags in addition to the common ones; the last of equal flags counts."""
        settings, count = self._settings, len(self._processes)
        yield from ("--processes", "1", "--metrics-address", "127.0.0.1:0")
        for name in ("address", "admin_address", "health_address"):
            if address := getattr(settings, name):
                yield from (f"--{name.replace('_', '-')}", address)
        if not settings.workers:
            yield from ("--workers", str(max(1, usable_cores() // settings.intra_op_threads // count)))
        of_setting, weights = settings.max_cache_bytes // count, _weights_bytes(settings.models)
        cache = of_setting or cache_bytes(memory_limit() // count, weights)
        yield from ("--max-cache-mb", str(max(1, cache // _MEGABYTE)))
        yield from ("--answer-cache-mb", str(settings.answer_cache_mb // count))
        if settings.on_demand and settings.on_demand.memory_bytes:
            yield from ("--model-memory", f"{max(1, settings.on_demand.memory_bytes // count // _MEGABYTE)}MB")
        if settings.process_address:
            host, _, port = settings.process_address.rpartition(":")
            yield from ("--process-address", f"{host}:{int(port) + process.number}")

    async def _follow(self, process: _Process, line: Line) -> None:
        while (message := await line.receive()) is not None:
            match message["kind"]:
                case "listening":
                    process.metrics_port = message["metrics"]
                case "loaded":
                    process.is_loaded.set()
                    if self._is_open:
                        self._open(process)
                case "serving":
                    process.is_serving.set()
                case "change":
                    self._spread(process, message["change"], message["asked"])
                case "changed":
                    fault = message["fault"]
                    self._note(message["change"], process.number, fault and f"process {process.number}: {fault}")

    def _open(self, process: _Process) -> None:
        if process.line:
            process.line.send(kind="open")

    def _spread(self, asking: _Process, change: int, asked: Message) -> None:
        """Let all servers but the asking one make a change."""
        others = [each for each in self._processes if each is not asking and each.line and each.is_loaded.is_set()]
        self._changes[change] = asking, change, {each.number for each in others}, []
        for each in others:
            if each.line:
                each.line.send(kind="change", change=change, asked=asked)
        self._note(change, -1, None)

    def _note(self, change: int, process: int, fault: str | None) -> None:
        """Take down that a server has made a change, or why not; answer the asking server after the last one."""
        if (known := self._changes.get(change)) is None:
            return
        asking, _, waiting, faults = known
        waiting.discard(process)
        faults += [fault] if fault else []
        if not waiting:
            del self._changes[change]
            if asking.line:
                asking.line.send(kind="changed", change=change, faults=faults)

    def _forward(self, number: int) -> None:
        if number != signal.SIGHUP:
            self._stopping.set()
        for each in self._processes:
            if each.running and each.running.returncode is None:
                with suppress(ProcessLookupError):
                    each.running.send_signal(number)


async def _have_happened(events: Sequence[asyncio.Event], keeping: Sequence[asyncio.Task[int]]) -> bool:
    """Wait for all events of servers, and return True, or for the first server that ends for good."""
    waiting: asyncio.Future[Any] = asyncio.gather(*[each.wait() for each in events])
    await asyncio.wait([waiting, *keeping], return_when=asyncio.FIRST_COMPLETED)
    return waiting.done() or not waiting.cancel()


class _SummedMetrics(Collector):
    """The metrics of all servers, with the label `process`, and the parent's own."""

    def __init__(self, processes: Sequence[_Process]) -> None:
        self._processes = processes

    def collect(self) -> Iterator[Metric]:
        """Scrape the servers, one after another; a silent one is left out and shown as not up."""
        up = GaugeMetricFamily("nmt_process_up", "Whether a server of several answers.", labels=["process"])
        restarts = CounterMetricFamily("nmt_process_restarts", "Times that a server ended.", labels=["process"])
        families: dict[str, Metric] = {}
        for process in self._processes:
            label = str(process.number)
            scraped = _scraped(process.metrics_port) if process.metrics_port else None
            up.add_metric([label], float(scraped is not None and process.is_serving.is_set()))
            restarts.add_metric([label], process.restarts)
            for family in scraped or ():
                known = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                known.samples += [
                    sample._replace(labels={**sample.labels, "process": label}) for sample in family.samples
                ]
        yield from (up, restarts, *families.values())


def _scraped(port: int) -> list[Metric] | None:
    connection = HTTPConnection("127.0.0.1", port, timeout=_SCRAPE_SECONDS)
    try:
        connection.request("GET", "/metrics", headers={"Accept": _OPENMETRICS})
        text = connection.getresponse().read(_MAX_SCRAPE_BYTES).decode()
        return list(text_string_to_metric_families(text))  # type: ignore[no-untyped-call]
    except (OSError, HTTPException, ValueError):
        return None
    finally:
        connection.close()


def _shares(count: int) -> list[frozenset[int]]:
    """Divide the usable cores among servers; the shares are empty where affinity is unknown or a quota limits cores."""
    if not hasattr(os, "sched_getaffinity"):
        return [frozenset()] * count
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) != usable_cores() or len(cores) < count:
        return [frozenset()] * count
    bounds = [math.floor(number * len(cores) / count) for number in range(count + 1)]
    return [frozenset(cores[start:end]) for start, end in pairwise(bounds)]


@contextmanager
def _cores(cores: frozenset[int]) -> Iterator[None]:
    """Start processes on some cores while the context lasts."""
    if not cores:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def _held(address: str) -> Iterator[str]:
    """Hold an address so that servers of this parent share it and no other server takes it; yield it with its port.

    Raises:
        OSError: It is taken, or the system cannot share addresses.
    """
    if not hasattr(socket, "SO_REUSEPORT"):
        raise OSError("this system cannot share an address among processes: use --processes 1")
    host, port = split_address(address)
    family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as alone:
        # Without SO_REUSEPORT this fails if there is another listener.
        alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            alone.bind(place)
            alone.listen()
        except OSError as error:
            raise OSError(f"cannot serve on {address}: {error.strerror}") from error
        place = alone.getsockname()
    with socket.socket(family, kind, protocol) as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(place)
        name = f"[{host}]" if ":" in host else host
        yield f"{name}:{place[1]}"


def _ending(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"


def supervise(settings: Settings, flags: Sequence[str]) -> int:
    """Serve with several processes until a signal; return the exit status."""

    async def run() -> int:
        return await Parent(settings, flags).run()

    return asyncio.run(run())


def _weights_bytes(models: Path) -> int:
    """Return the bytes of the weights of all models: of each bundle, those of its largest file."""
    bundles = ([file.stat().st_size for file in bundle.glob("*")] for bundle in models.glob("*/*"))
    return sum(max(sizes, default=0) for sizes in bundles)
