"""Life of the gateway: listen, serve, and on SIGTERM finish accepted requests."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket

import uvicorn

from xuanzang.gateway.app import application, open_client
from xuanzang.gateway.entry.protocol import bounded
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
    with listener(settings.address) as listening:
        server = uvicorn.Server(configuration(settings))
        _LOGGER.info("listening", extra={"port": listening.getsockname()[1], "server": settings.server})
        await server.serve(sockets=[listening])
    _LOGGER.info("stopped")


def listener(address: str) -> socket.socket:
    """Listen on an address.

    Args:
        address: Host and port; port 0: any free one.

    Raises:
        OSError: The address is taken, or not this machine's.
    """
    host, port = split_address(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=_BACKLOG)


def configuration(settings: Settings) -> uvicorn.Config:
    """Return uvicorn's configuration; the event loop must be running, because the client opens.

    Args:
        settings: Settings.

    Raises:
        ValueError: The server's address is invalid.
    """
    return uvicorn.Config(
        application(settings, open_client(settings)),
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
