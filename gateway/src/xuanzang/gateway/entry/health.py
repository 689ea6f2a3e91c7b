"""Health of the gateway, which is that of the server behind it, over HTTP and gRPC."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from xuanzang.client import (
    AsyncTranslationClient,
    DeadlineExceededError,
    ServerUnavailableError,
    TranslationError,
)

_SECONDS = 2.0
_PAUSE_SECONDS = 0.25
_FIRST_SECONDS = 1.0
"""Time without an answer after which the gateway checks the server's health."""


class Health:
    """Health of the server, which also counts as healthy if it requires a key. Concurrent probes share one call."""

    def __init__(self, client: AsyncTranslationClient) -> None:
        """Ask nothing yet."""
        self._client = client
        self._asking: asyncio.Task[bool] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a probe."""
        if await self.answers():
            response = JSONResponse({"status": "ok"})
        else:
            response = JSONResponse({"status": "unavailable"}, HTTPStatus.SERVICE_UNAVAILABLE)
        await response(scope, receive, send)

    async def answers(self) -> bool:
        """Return whether the server answers."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        return await asyncio.shield(self._asking)

    async def lost(self) -> None:
        """Return once an answer has been awaited for three seconds, and for the last two no server has answered."""
        while True:
            await asyncio.sleep(_FIRST_SECONDS)
            try:
                async with asyncio.timeout(_SECONDS):
                    while not await self.answers():  # noqa: ASYNC110 - nothing tells that a server is back
                        await asyncio.sleep(_PAUSE_SECONDS)
            except TimeoutError:
                return

    async def _ask(self) -> bool:
        try:
            await self._client.list_models(timeout=_SECONDS)
        except (ServerUnavailableError, DeadlineExceededError):
            return False
        except TranslationError:
            return True
        return True
