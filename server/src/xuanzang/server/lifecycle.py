"""Life cycle of the server: answer health checks, load the models, serve, and on SIGTERM finish accepted requests."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import resource
import signal
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.engine.engine import Engine
from xuanzang.server.engine.errors import EngineError, ModelNotFoundError
from xuanzang.server.member import Member
from xuanzang.server.metrics_endpoint import MetricsEndpoint
from xuanzang.server.observation.observation import Observation
from xuanzang.server.rpc.server import STOPPING_SECONDS, ListeningServer, RpcServer

_LOGGER = logging.getLogger(__name__)

_HEAP_INTERVAL_SECONDS = 20.0
# Python's own 700 suit programs with few objects; under overload a third of the event loop's time went to collections.
# Survivors of two such collections are looked at together, in some milliseconds, and all objects hardly ever: a call
# leaves no cycles, and workers collect when they are idle.
_COLLECTIONS = 10_000, 2, 500
# Limit for callers that are slow to read their last answers.
_SENDING_SECONDS = 5.0
"""Of a long drain, for sending the last answers; of a short one a third."""
_LEAST_SENDING_SECONDS = 0.5
_PROGRESS_SECONDS = 3.0
_RETRY_SECONDS = 1.0


class BrokenServerError(OSError):
    """The serving loop of gRPC or a worker ended without being stopped: the process must be replaced."""


def raise_descriptor_limit() -> None:
    """Let the process open as many files and connections as it may: the usual 1,024 are from the time of `select`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def keep_heap() -> None:
    """Exempt all objects of now from garbage collection, and collect among later ones more rarely.

    Call it once what stays until the end has been loaded; `gc.unfreeze` is the opposite. Before it nothing is collected
    in a server: a start leaves a thousand objects of garbage, and to look for them takes a fifth of its time.
    """
    gc.freeze()
    gc.enable()
    gc.set_threshold(*_COLLECTIONS)


async def trim_heap_when_idle(is_idle: Callable[[], bool]) -> None:
    """Give freed memory back to the system while nothing runs, until cancelled; without glibc nothing is done.

    gRPC and onnxruntime allocate in many threads. glibc keeps what each of them freed, so that after a burst of calls,
    refused ones included, a server would stay at its largest size.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is None:
        return
    while True:
        await asyncio.sleep(_HEAP_INTERVAL_SECONDS)
        if is_idle():
            # Takes milliseconds, and releases the interpreter's lock.
            await asyncio.to_thread(trim, 0)


class Signals:
    """Requests that the signals of the process make."""

    def __init__(self) -> None:
        self.name: str | None = None
        """Name of the first signal that ends the process."""
        self.stop = asyncio.Event()
        self.hurry = asyncio.Event()
        """Set to abandon accepted work."""
        self.reload = asyncio.Event()

    def take(self, number: int) -> None:
        """Do what a signal asks for; call it in the event loop."""
        if number == signal.SIGHUP:
            self.reload.set()
            return
        self.name = self.name or signal.Signals(number).name
        self.stop.set()
        if number == signal.SIGQUIT:
            self.hurry.set()


@dataclass(kw_only=True, eq=False)
class Server:
    """The RPC server, the engine and the metrics endpoint, started and stopped in order."""

    rpc: RpcServer
    engine: Engine
    metrics_endpoint: MetricsEndpoint
    drain_timeout_seconds: float
    admin: ListeningServer | None = None
    health: ListeningServer | None = None
    observation: Observation = field(default_factory=Observation)
    member: Member | None = None
    """Line to the parent of several servers; None for a server alone."""
    _is_loaded: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT, then drain; SIGQUIT stops without waiting, SIGHUP reloads.

        BundleError: a bundle cannot be served. BrokenServerError: the server no longer accepts RPCs or has lost a
        worker, and has finished the RPCs in progress.
        """
        with _handled_signals() as signals:
            ended = asyncio.create_task(self.rpc.ended())
            broken = asyncio.create_task(self.engine.broken.wait())
            for fault in (ended, broken):
                fault.add_done_callback(lambda _: signals.stop.set())
            tasks = (
                broken,
                asyncio.create_task(trim_heap_when_idle(lambda: not self.rpc.running)),
                asyncio.create_task(self._reload_at(signals.reload)),
                *self._parent_task(signals),
            )
            try:
                await self.listen()
                await _run_until(signals.stop, self.load())
                self._is_loaded.set()
                await signals.stop.wait()
            finally:
                has_ended, is_broken = ended.done(), broken.done()
                for task in (ended, *tasks):
                    task.cancel()
                await self.drain(signals)
        if has_ended:
            raise BrokenServerError("gRPC no longer accepts RPCs; the process ends so that another replaces it")
        if is_broken:
            raise BrokenServerError("an error has ended a worker; the process ends so that another replaces it")

    async def listen(self) -> None:
        """Answer health checks and scrapes; nothing is translated yet."""
        await self.rpc.start()
        ports = {"port": self.rpc.port, "metrics_port": self.metrics_endpoint.port}
        if self.health:
            await self.health.start()
            ports["health_port"] = self.health.port
        if self.member:
            self.member.show_ports(metrics=self.metrics_endpoint.port)
        _LOGGER.info("listening", extra=ports)

    def _parent_task(self, signals: Signals) -> Iterator[asyncio.Task[None]]:
        """Follow the parent of several servers, if there is one; without it the server drains."""
        if self.member:
            yield asyncio.create_task(self.member.run(self._apply, partial(signals.take, signal.SIGTERM)))

    async def _apply(self, asked: Mapping[str, Any]) -> None:
        """Make a change of the models that another server was asked for."""
        live, name, version = self.engine.live, asked["name"], asked["version"]
        match asked["method"]:
            case "load":
                await live.load(name, version)
            case "unload":
                with suppress(ModelNotFoundError):
                    await live.unload(name, version)
            case "reload":
                await live.reload()

    async def load(self) -> None:
        """Load and warm the models, serve, and read what most requests do not need."""
        await self.engine.start()
        keep_heap()
        if self.member:
            await self.member.may_open()
        names = sorted({model.name for model in self.engine.models})
        await self.rpc.open(names)
        self.engine.live.listen(self.rpc.health.show)
        # The watch of the folder may have been faster.
        await self.rpc.health.show(self.engine.live.catalog.names)
        _LOGGER.info("serving", extra={"models": names, "address": self.rpc.address})
        if self.member:
            self.member.show_serving()
        if self.admin:
            await self.admin.start()
            _LOGGER.info("administration", extra={"port": self.admin.port})
        await self._open_detector()

    async def _open_detector(self) -> None:
        """Open the detector of languages; while that fails, as without descriptors, serving goes on."""
        failed = False
        while True:
            try:
                await self.engine.open_detector()
            except OSError as error:
                if not failed:
                    _LOGGER.warning("the detector of languages cannot be opened yet", extra={"reason": str(error)})
                failed = True
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return

    async def _reload_at(self, asked: asyncio.Event) -> None:
        """Reload whenever that is asked for, once the models are loaded."""
        await self._is_loaded.wait()
        while await asked.wait():
            asked.clear()
            await self.reload()

    async def reload(self) -> None:
        """Take over changed keys, certificates, glossaries and models; invalid ones are logged and ignored."""
        _LOGGER.info("reloading")
        try:
            await self.rpc.reload()
            if self.admin:
                await self.admin.reload()
            await self.engine.reload()
        except (BundleError, EngineError) as error:
            _LOGGER.error("the models cannot be reloaded", extra={"reason": str(error)})  # noqa: TRY400 - it is enough
        except Exception:
            # The next one must be tried all the same.
            _LOGGER.exception("a reload failed")
        else:
            _LOGGER.info("reloaded", extra={"models": sorted(self.engine.live.catalog.names)})

    async def drain(self, signals: Signals | None = None) -> None:
        """Refuse new requests, finish accepted ones within the limit, which signals may cut short, and stop."""
        began = time.monotonic()
        signals = signals or Signals()
        facts: dict[str, object] = {"signal": signals.name, "limit_seconds": self.drain_timeout_seconds}
        _LOGGER.info("draining", extra=facts | {"requests": self.rpc.running})
        await self.rpc.close()
        # Admitted requests are answered, even if a thread still reads their language.
        await self.engine.router.idle()
        self.engine.drain()
        if self.admin:
            await self.admin.stop()
        # The engine answers requests that it cannot finish in time with an error, so every RPC has an answer to send.
        finished = await self._finish(signals, began)
        left = began + self.drain_timeout_seconds - STOPPING_SECONDS - time.monotonic()
        with suppress(TimeoutError):
            async with asyncio.timeout(max(left, _LEAST_SENDING_SECONDS)):
                await self.rpc.join()
        unsent = await self.rpc.stop()
        await asyncio.to_thread(self.observation.close)
        if self.health:
            await self.health.stop()
        self.metrics_endpoint.stop()
        gc.unfreeze()
        took = round(time.monotonic() - began, 3)
        _LOGGER.info("stopped", extra={"seconds": took, "drained": finished and not unsent})

    async def _finish(self, signals: Signals, began: float) -> bool:
        """Wait for accepted work, log the rest, and return whether all was done."""
        seconds = self.drain_timeout_seconds
        joining = asyncio.create_task(self.engine.join(seconds - min(_SENDING_SECONDS, seconds / 3)))
        hurrying = asyncio.create_task(signals.hurry.wait())
        hurrying.add_done_callback(lambda each: None if each.cancelled() else self.engine.hurry())
        while not (await asyncio.wait((joining,), timeout=_PROGRESS_SECONDS))[0]:
            facts = {"seconds": round(time.monotonic() - began, 1), "requests": self.rpc.running}
            _LOGGER.info("still draining", extra=facts)
        hurrying.cancel()
        return await joining


async def _run_until(stop: asyncio.Event, work: Coroutine[None, None, None]) -> None:
    """Run work to its end, or cancel it at the stop."""
    working = asyncio.create_task(work)
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        working.cancel()
    with suppress(asyncio.CancelledError):
        await working


@contextmanager
def _handled_signals() -> Iterator[Signals]:
    """Take signals while the context lasts.

    A second SIGTERM or SIGINT changes nothing, as the drain has a time limit; SIGQUIT ends the drain.
    """
    signals, loop = Signals(), asyncio.get_running_loop()
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
    previous = {
        number: signal.signal(number, lambda number, _: loop.call_soon_threadsafe(signals.take, number))
        for number in numbers
    }
    try:
        yield signals
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
