"""The standard health service (grpc.health.v1): the server as a whole, the translation service, and each model."""

from __future__ import annotations

from collections.abc import Iterable

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from xuanzang.translation.v1 import translation_pb2

HEALTH_SERVICE = health.SERVICE_NAME
TRANSLATION_SERVICE = translation_pb2.DESCRIPTOR.services_by_name["TranslationService"].full_name

_SERVING = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


class Health:
    """Says NOT_SERVING until the models are warm, SERVING from then on, and NOT_SERVING again from the drain."""

    def __init__(self) -> None:
        self._servicer = health.aio.HealthServicer()

    def add_to(self, server: grpc.aio.Server) -> None:
        """Serve the health service.

        Args:
            server: Not yet started.
        """
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)

    async def start(self) -> None:
        """Say that nothing is being served yet; the servicer itself would begin with the opposite."""
        for name in ("", TRANSLATION_SERVICE):
            await self._servicer.set(name, _NOT_SERVING)

    async def open(self, models: Iterable[str]) -> None:
        """Say that the models are warm.

        Args:
            models: Their names; each can be asked for like a service.
        """
        for name in (*models, TRANSLATION_SERVICE, ""):
            await self._servicer.set(name, _SERVING)

    async def close(self) -> None:
        """Say that nothing is served any more; for good."""
        await self._servicer.enter_graceful_shutdown()
