"""Life of the gateway: listen, serve, and on SIGTERM finish accepted requests."""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from types import FrameType

import uvicorn
from prometheus_client import make_asgi_app

from xuanzang.gateway.app import Gateway
from xuanzang.gateway.entry.connections import ConnectionLimits, bounded
from xuanzang.gateway.metrics import Metrics
from xuanzang.gateway.settings import Settings, split_address
from xuanzang.serving import event_loop

_LOGGER = logging.getLogger(__name__)
_BACKLOG = 2048
_ACCEPTED_AT_ONCE = 64
"""Connections between two turns of others: asyncio takes the same number for this and for the kernel's backlog."""
_OTHER_FILES = 256
_SEND_BUFFER_BYTES = 128 * 1024
_ENDING_SECONDS = 3.0
"""Last seconds of a long drain, a third of a short one: connections that still wait for callers end in them."""
_LATE_SECONDS = 1.0
_SWITCH_SECONDS = 0.0005
"""Longest time that the thread that reads large bodies holds the interpreter lock."""
_COLLECTIONS = 10_000, 2, 50
"""Thresholds of the garbage collection; among all objects of the start it would take 20 to 40 ms each time."""
_SCRAPES = 64
"""Connections that may ask for metrics at a time."""
_SCRAPE_SECONDS = 5.0


class GatewayServer(uvicorn.Server):
    """uvicorn's server, which the kernel ends if a drain does not."""

    def __init__(self, gateway: Gateway) -> None:
        """Serve a gateway."""
        super().__init__(configuration(gateway))
        self._gateway = gateway

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin the drain."""
        # Without Python: whatever holds the interpreter up cannot hold this up.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, (self.config.timeout_graceful_shutdown or 0) + _LATE_SECONDS)
        super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections."""
        await super().startup(sockets=sockets)
        for listening in sockets or ():
            listening.listen(_BACKLOG)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Drain."""
        if self._gateway.grpc:
            self._gateway.grpc.begin_stop()
        seconds = float(self.config.timeout_graceful_shutdown or 0)
        patience = seconds - min(_ENDING_SECONDS, seconds / 3)
        asyncio.get_running_loop().call_later(patience, self._end_connections)
        await super().shutdown(sockets=sockets)
        if self.force_exit:
            # Those that were accepted since, too. What is left when the loop closes leaves a traceback each.
            self._end_connections()
            if self.server_state.tasks:
                await asyncio.wait(self.server_state.tasks, timeout=_LATE_SECONDS)
            await asyncio.wait([asyncio.ensure_future(self.lifespan.shutdown())], timeout=_LATE_SECONDS)

    def stop_at_once(self) -> None:
        """Stop without waiting for answers to requests in progress, which end like those of callers that hang up."""
        self.should_exit = self.force_exit = True
        self._end_connections()
        if self._gateway.grpc:
            self._gateway.grpc.stop_at_once()

    def _end_connections(self) -> None:
        """End all connections, which their requests see as hung up; what uvicorn cancels leaves a traceback each."""
        for connection in list(self.server_state.connections):
            if connection.transport:
                connection.transport.abort()


def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT, then drain; SIGQUIT stops without waiting, SIGHUP reloads the certificate.

    Raises:
        OSError: The address is taken, or not this machine's.
        ValueError: The server's address is invalid.
    """
    # uvicorn raises the signal again when it has drained, which would end the process with its status.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    event_loop.run(_serve(settings))


async def _serve(settings: Settings) -> None:
    sys.setswitchinterval(_SWITCH_SECONDS)
    metrics = Metrics()
    async with AsyncExitStack() as opened:
        listening = opened.enter_context(listener(settings.address))
        metrics_port = await opened.enter_async_context(_served(metrics, settings.metrics_address))
        _allow_files(settings.max_connections)
        gateway = Gateway(settings, metrics)
        server = GatewayServer(gateway)
        facts = {"port": listening.getsockname()[1], "server": settings.server, "metrics_port": metrics_port}
        facts |= {"grpc_port": gateway.grpc.port} if gateway.grpc else {}
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, _reload_certificate, server.config)
        loop.add_signal_handler(signal.SIGQUIT, server.stop_at_once)
        _LOGGER.info("listening", extra=facts)
        gc.freeze()
        gc.set_threshold(*_COLLECTIONS)
        await server.serve(sockets=[listening])
    _LOGGER.info("stopped")


def _allow_files(connections: int) -> None:
    """Let the process open a file for each connection, as far as the system lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + _OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed < wanted:
        _LOGGER.warning("few files may be open: lower --max-connections", extra={"files": allowed, "wanted": wanted})


def _reload_certificate(configuration: uvicorn.Config) -> None:
    """Use the present files of the certificate for new connections, unless they are invalid."""
    if not configuration.ssl or not configuration.ssl_certfile:
        return
    try:
        configuration.ssl.load_cert_chain(configuration.ssl_certfile, configuration.ssl_keyfile)
    except OSError as error:  # ssl.SSLError included
        _LOGGER.error("the old certificate stays in use", extra={"reason": str(error)})  # noqa: TRY400 - it is enough
    else:
        _LOGGER.info("certificate reloaded")


class _MetricsServer(uvicorn.Server):
    """uvicorn's server without signals, which another server handles."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield


@asynccontextmanager
async def _served(metrics: Metrics, address: str | None) -> AsyncIterator[int | None]:
    """Serve metrics in the event loop while the context lasts; yield their port."""
    if address is None:
        yield None
        return
    limits = ConnectionLimits(
        total=_SCRAPES, of_address=_SCRAPES, receive_seconds=_SCRAPE_SECONDS, send_seconds=_SCRAPE_SECONDS
    )
    with listener(address) as listening:
        server = _MetricsServer(
            uvicorn.Config(
                make_asgi_app(metrics.registry),
                http=bounded(limits),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=1,
            )
        )
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            await serving


def listener(address: str) -> socket.socket:
    """Listen on an address.

    Args:
        address: Host and port; port 0: any free one.

    Raises:
        OSError: The address is taken, or not this machine's.
    """
    host, port = split_address(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    # Its connections inherit it; otherwise the second packet of an answer waits 40 ms for the receipt of the first.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # Otherwise the kernel buffers megabytes of unread answers.
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
    return listening


def configuration(gateway: Gateway) -> uvicorn.Config:
    """Return uvicorn's configuration."""
    settings = gateway.settings
    limits = ConnectionLimits(
        total=settings.max_connections,
        of_address=max(1, int(settings.max_connections * settings.address_share)),
        receive_seconds=settings.receive_timeout_seconds,
        send_seconds=settings.send_timeout_seconds,
    )
    return uvicorn.Config(
        gateway.http,
        http=bounded(limits),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=_ACCEPTED_AT_ONCE,
        timeout_keep_alive=settings.keep_alive_seconds,
        # In the last second cancelled requests end.
        timeout_graceful_shutdown=max(settings.drain_timeout_seconds - 1, min(settings.drain_timeout_seconds, 1)),
        ssl_certfile=settings.tls_certificate,
        ssl_keyfile=settings.tls_key,
    )
