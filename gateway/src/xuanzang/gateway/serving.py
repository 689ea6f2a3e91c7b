"""Life of the gateway: listen, serve, and on SIGTERM finish accepted requests."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from xuanzang.gateway.app import application, open_client
from xuanzang.gateway.entry.protocol import bounded
from xuanzang.gateway.metrics import Metrics, serve_metrics
from xuanzang.gateway.settings import Settings, split_address

_LOGGER = logging.getLogger(__name__)
_BACKLOG = 2048


def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT, then drain.

    Args:
        settings: Settings.

    Raises:
        OSError: The address is taken, or not this machine's.
        ValueError: The server's address is invalid.
    """
    # uvicorn raises the signal again when it has drained, which would end the process with its status.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    asyncio.run(_serve(settings))


async def _serve(settings: Settings) -> None:
    metrics = Metrics()
    with listener(settings.address) as listening, _served(metrics, settings.metrics_address) as metrics_port:
        server = uvicorn.Server(configuration(settings, metrics))
        facts = {"port": listening.getsockname()[1], "server": settings.server, "metrics_port": metrics_port}
        _LOGGER.info("listening", extra=facts)
        await server.serve(sockets=[listening])
    _LOGGER.info("stopped")


@contextmanager
def _served(metrics: Metrics, address: str | None) -> Iterator[int | None]:
    """Serve metrics while the context lasts; yield their port."""
    if address is None:
        yield None
        return
    host, port = split_address(address)
    server, thread = serve_metrics(metrics, host=host, port=port)
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


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
    return listening


def configuration(settings: Settings, metrics: Metrics | None = None) -> uvicorn.Config:
    """Return uvicorn's configuration; the event loop must be running, because the client opens.

    Args:
        settings: Settings.
        metrics: Metrics; None: some that nobody asks for.

    Raises:
        ValueError: The server's address is invalid.
    """
    return uvicorn.Config(
        application(settings, open_client(settings), metrics),
        http=bounded(settings.receive_timeout_seconds),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=_BACKLOG,
        limit_concurrency=settings.max_connections,
        timeout_keep_alive=settings.keep_alive_seconds,
        timeout_graceful_shutdown=settings.drain_timeout_seconds,
        ssl_certfile=settings.tls_certificate,
        ssl_keyfile=settings.tls_key,
    )
