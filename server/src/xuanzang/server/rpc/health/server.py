"""A listener for health checks alone, apart from that of the callers."""

from __future__ import annotations

from typing import cast

import grpc

from xuanzang.server.metrics import Metrics
from xuanzang.server.rpc.entry.listener import Listener
from xuanzang.server.rpc.health.service import Health
from xuanzang.server.rpc.interceptors.error_status import ErrorInterceptor
from xuanzang.server.rpc.interceptors.reception import ReceptionInterceptor
from xuanzang.server.rpc.interceptors.telemetry import TelemetryInterceptor
from xuanzang.server.rpc.server import LISTENER_OPTIONS, bind_address

# Requests have the name of a service.
_MAX_MESSAGE_BYTES = 4 * 2**10
_MAX_CONNECTIONS = 256
_IDLE_SECONDS = 30.0
_GRACE_SECONDS = 0.1


class HealthServer:
    """Serves `grpc.health.v1` in plain text: its answers are no secret, and kubelet's probes know no TLS."""

    def __init__(self, health: Health, *, address: str, metrics: Metrics) -> None:
        """Bind the address; call it inside a running event loop.

        Args:
            health: Health of the server.
            address: Address such as "0.0.0.0:50053"; port 0 for any free one.
            metrics: Metrics of the server.

        Raises:
            OSError: The address cannot be bound.
        """
        interceptors = (ReceptionInterceptor(_IDLE_SECONDS), TelemetryInterceptor(metrics), ErrorInterceptor())
        options = (
            *LISTENER_OPTIONS,
            ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
            ("grpc.max_allowed_incoming_connections", _MAX_CONNECTIONS),
        )
        # A grpc.aio.Server, too, which the type stubs do not know.
        self._server = cast("grpc.aio.Server", Listener(interceptors=interceptors, options=options))
        health.add_to(self._server)
        self.port = bind_address(self._server, address, None)

    async def start(self) -> None:
        """Answer from now on."""
        await self._server.start()

    async def stop(self) -> None:
        """Stop, and end the streams of those who watch."""
        await self._server.stop(_GRACE_SECONDS)
