"""The listener of the administration service, apart from that of the translation service."""

from __future__ import annotations

import asyncio
import logging
from typing import cast

import grpc
from grpc_reflection.v1alpha import reflection

from xuanzang.admin.v1 import admin_pb2_grpc
from xuanzang.server.access.authentication import Authenticator
from xuanzang.server.engine.models.live import LiveModels
from xuanzang.server.engine.promotion.promoter import Promoter
from xuanzang.server.metrics import Metrics
from xuanzang.server.rpc.entry.identities import Identities
from xuanzang.server.rpc.entry.listener import Listener
from xuanzang.server.rpc.entry.tls import ReloadedTLS
from xuanzang.server.rpc.interceptors.access import AccessInterceptor, IdentityInterceptor
from xuanzang.server.rpc.interceptors.error_status import ErrorInterceptor
from xuanzang.server.rpc.interceptors.reception import ReceptionInterceptor
from xuanzang.server.rpc.interceptors.telemetry import TelemetryInterceptor
from xuanzang.server.rpc.server import LISTENER_OPTIONS, bind_address
from xuanzang.server.rpc.services.models import MODEL_SERVICE, ModelService
from xuanzang.server.rpc.translation_rpcs import TranslationRpcs
from xuanzang.server.watched_files import reload_when_changed

_LOGGER = logging.getLogger(__name__)

# Requests have a name and a version.
_MAX_MESSAGE_BYTES = 64 * 2**10
_IDLE_SECONDS = 30.0
_GRACE_SECONDS = 0.1


class AdminServer:
    """Serves `xuanzang.admin.v1` once the models are loaded."""

    def __init__(
        self,
        live: LiveModels,
        promoter: Promoter,
        *,
        address: str,
        authenticator: Authenticator,
        tls: ReloadedTLS | None,
        metrics: Metrics,
    ) -> None:
        """Bind the address; call it inside a running event loop.

        Args:
            live: Models to change.
            promoter: Changes of which of them is live.
            address: Address such as "127.0.0.1:50052"; port 0 for any free one.
            authenticator: Judge of who administers.
            tls: Certificate and key; None for plain text.
            metrics: Metrics of the server.

        Raises:
            OSError: The address cannot be bound.
        """
        rpcs = TranslationRpcs()
        interceptors = (
            IdentityInterceptor(Identities(authenticator), rpcs),
            ReceptionInterceptor(_IDLE_SECONDS),
            TelemetryInterceptor(metrics, rpcs=rpcs),
            ErrorInterceptor(),
            AccessInterceptor(rpcs),
        )
        options = (*LISTENER_OPTIONS, ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES))
        # A grpc.aio.Server, too, which the type stubs do not know.
        self._server = cast("grpc.aio.Server", Listener(interceptors=interceptors, options=options))
        admin_pb2_grpc.add_ModelServiceServicer_to_server(ModelService(live, promoter), self._server)
        reflection.enable_server_reflection((MODEL_SERVICE, reflection.SERVICE_NAME), self._server)
        self.port = bind_address(self._server, address, tls)
        self._tls = tls
        self._reloading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Answer from now on."""
        await self._server.start()
        if self._tls:
            self._reloading = asyncio.create_task(reload_when_changed([self._tls]))
        _LOGGER.info("administration", extra={"port": self.port})

    async def stop(self) -> None:
        """Stop, and cancel what callers still wait for."""
        if self._reloading:
            self._reloading.cancel()
        await self._server.stop(_GRACE_SECONDS)
