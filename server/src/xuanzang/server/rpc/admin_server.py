"""The listener of the administration service, apart from that of the translation service."""

from __future__ import annotations

import logging
from typing import cast

import grpc
from grpc_reflection.v1alpha import reflection

from xuanzang.admin.v1 import admin_pb2_grpc
from xuanzang.server.engine.models.live import LiveModels
from xuanzang.server.metrics import Metrics
from xuanzang.server.rpc.interceptors.error_status import ErrorInterceptor
from xuanzang.server.rpc.interceptors.reception import ReceptionInterceptor
from xuanzang.server.rpc.interceptors.telemetry import TelemetryInterceptor
from xuanzang.server.rpc.listener import Listener
from xuanzang.server.rpc.model_service import MODEL_SERVICE, ModelService
from xuanzang.server.rpc.server import LISTENER_OPTIONS, TLSFiles, bind_address

_LOGGER = logging.getLogger(__name__)

# Requests have a name and a version.
_MAX_MESSAGE_BYTES = 64 * 2**10
_IDLE_SECONDS = 30.0
_GRACE_SECONDS = 0.1


class AdminServer:
    """Serves `xuanzang.admin.v1` once the models are loaded."""

    def __init__(
        self, live: LiveModels, *, address: str, is_loopback: bool, tls: TLSFiles | None, metrics: Metrics
    ) -> None:
        """Bind the address; call it inside a running event loop.

        Args:
            live: Models to change.
            address: Address such as "127.0.0.1:50052"; port 0 for any free one.
            is_loopback: Whether only this machine can reach it.
            tls: Certificate and key; None for plain text.
            metrics: Metrics of the server.

        Raises:
            OSError: The address cannot be bound, or the certificate is not valid.
        """
        interceptors = (ReceptionInterceptor(_IDLE_SECONDS), TelemetryInterceptor(metrics), ErrorInterceptor())
        options = (*LISTENER_OPTIONS, ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES))
        # A grpc.aio.Server, too, which the type stubs do not know.
        self._server = cast("grpc.aio.Server", Listener(interceptors=interceptors, options=options))
        admin_pb2_grpc.add_ModelServiceServicer_to_server(ModelService(live), self._server)
        reflection.enable_server_reflection((MODEL_SERVICE, reflection.SERVICE_NAME), self._server)
        self.port = bind_address(self._server, address, tls)
        if not is_loopback and (tls is None or tls.client_ca is None):
            _LOGGER.warning("anybody who reaches the admin address can unload models", extra={"address": address})

    async def start(self) -> None:
        """Answer from now on."""
        await self._server.start()
        _LOGGER.info("administration", extra={"port": self.port})

    async def stop(self) -> None:
        """Stop, and cancel what callers still wait for."""
        await self._server.stop(_GRACE_SECONDS)
