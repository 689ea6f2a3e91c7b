"""Life cycle of the server: answer health checks, load the models, serve, and on SIGTERM finish accepted requests."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from xuanzang.server.engine.engine import Engine
from xuanzang.server.heap import keep_heap, trim_heap_when_idle
from xuanzang.server.metrics_endpoint import MetricsEndpoint
from xuanzang.server.observation.observation import Observation
from xuanzang.server.rpc.grpc_private import ListenerEndedError
from xuanzang.server.rpc.server import AdminServer, HealthServer, RpcServer

_LOGGER = logging.getLogger(__name__)

# Limit for callers that are slow to read their last answers.
_SENDING_SECONDS = 5.0


class Server:
    """The RPC server, the engine and the metrics endpoint, started and stopped in order."""

    def __init__(
        self,
        *,
        rpc: RpcServer,
        engine: Engine,
        metrics_endpoint: MetricsEndpoint,
        drain_timeout_seconds: float,
        admin: AdminServer | None = None,
        observation: Observation | None = None,
        health: HealthServer | None = None,
    ) -> None:
        self.rpc = rpc
        self.admin = admin
        self.health = health
        self.metrics_endpoint = metrics_endpoint
        self._engine = engine
        self._observation = observation or Observation()
        self._drain_timeout_seconds = drain_timeout_seconds

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT, then drain.

        Raises:
            BundleError: A bundle cannot be served.
            ListenerEndedError: The server no longer accepts RPCs; those in progress have been finished.
        """
        with _stop_signals() as stop:
            ended = asyncio.create_task(self.rpc.ended())
            ended.add_done_callback(lambda _: stop.set())
            trimming = asyncio.create_task(trim_heap_when_idle(lambda: self.rpc.is_idle))
            try:
                await self.listen()
                await _run_until(stop, self.load())
                await stop.wait()
            finally:
                has_ended = ended.done()
                ended.cancel()
                trimming.cancel()
                await self.drain()
        if has_ended:
            raise ListenerEndedError("gRPC no longer accepts RPCs; the process ends so that another replaces it")

    async def listen(self) -> None:
        """Answer health checks and scrapes; nothing is translated yet."""
        await self.rpc.start()
        ports = {"port": self.rpc.port, "metrics_port": self.metrics_endpoint.port}
        if self.health:
            await self.health.start()
            ports["health_port"] = self.health.port
        _LOGGER.info("listening", extra=ports)

    async def load(self) -> None:
        """Load and warm the models, then serve."""
        await self._engine.start()
        keep_heap()
        names = sorted({model.name for model in self._engine.models})
        await self.rpc.open(names)
        self._engine.live.listen(self.rpc.show)
        # The watch of the folder may have been faster.
        await self.rpc.show(self._engine.live.catalog.names)
        _LOGGER.info("serving", extra={"models": names})
        if self.admin:
            await self.admin.start()

    async def drain(self) -> None:
        """Refuse new requests, finish accepted ones within the limit, and stop."""
        began = time.monotonic()
        await self.rpc.close()
        self._engine.drain()
        if self.admin:
            await self.admin.stop()
        # The engine answers requests that it cannot finish in time with an error, so every RPC has an answer to send.
        finished = await self._engine.join(self._drain_timeout_seconds)
        with suppress(TimeoutError):
            async with asyncio.timeout(_SENDING_SECONDS):
                await self.rpc.join()
        unsent = await self.rpc.stop()
        await asyncio.to_thread(self._observation.close)
        if self.health:
            await self.health.stop()
        self.metrics_endpoint.stop()
        gc.unfreeze()
        facts = {"seconds": round(time.monotonic() - began, 3), "drained": finished and not unsent}
        _LOGGER.info("stopped", extra=facts)


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
def _stop_signals() -> Iterator[asyncio.Event]:
    """Yield an event that SIGTERM and SIGINT set; a second signal changes nothing, as the drain has a time limit."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def handle(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature of signal handlers
        loop.call_soon_threadsafe(stop.set)

    previous = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
