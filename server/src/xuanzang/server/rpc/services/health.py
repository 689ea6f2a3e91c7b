"""The standard health service (grpc.health.v1)."""

from __future__ import annotations

from collections.abc import Iterable

from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from xuanzang.server.rpc.methods import Service
from xuanzang.translation.v1 import translation_pb2

HEALTH_SERVICE = health.SERVICE_NAME
TRANSLATION_SERVICE = translation_pb2.DESCRIPTOR.services_by_name["TranslationService"].full_name

_SERVING = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


class Health:
    """Answers NOT_SERVING until the models are warm, SERVING until the drain, and NOT_SERVING afterwards.

    It knows the server as a whole, the translation service, and each model by its name.
    """

    def __init__(self) -> None:
        self._servicer = health.aio.HealthServicer()
        self._models: set[str] = set()

    @property
    def service(self) -> Service:
        """The service, for any number of listeners."""
        return Service(health_pb2_grpc.add_HealthServicer_to_server, self._servicer, is_open=True)

    async def start(self) -> None:
        """Answer NOT_SERVING; the servicer's own first answer would be SERVING."""
        for name in ("", TRANSLATION_SERVICE):
            await self._servicer.set(name, _NOT_SERVING)

    async def open(self, models: Iterable[str]) -> None:
        """Answer SERVING, also for warm models, which can each be checked like a service."""
        await self.show(models)
        for name in (TRANSLATION_SERVICE, ""):
            await self._servicer.set(name, _SERVING)

    async def show(self, models: Iterable[str]) -> None:
        """Answer SERVING for models, and NOT_SERVING for former ones."""
        served = set(models)
        self._models |= served
        for name in sorted(self._models):
            await self._servicer.set(name, _SERVING if name in served else _NOT_SERVING)

    async def close(self) -> None:
        """Answer NOT_SERVING, for good."""
        await self._servicer.enter_graceful_shutdown()
