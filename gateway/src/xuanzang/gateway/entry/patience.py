"""The time that a request has: until its deadline, until its caller hangs up, and until the server is lost."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any, TypeVar

from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from xuanzang.client import (
    AsyncTranslationClient,
    DeadlineExceededError,
    ServerUnavailableError,
    TranslationError,
)
from xuanzang.gateway.errors import Fault, RefusedError

_SECONDS = 2.0
_PAUSE_SECONDS = 0.25
_FIRST_SECONDS = 1.0
"""Time without an answer after which the gateway checks the server's health."""


class Health:
    """Health of the server, which also counts as healthy if it requires a key. Concurrent probes share one call."""

    def __init__(self, client: AsyncTranslationClient) -> None:
        """Ask nothing yet."""
        self._client = client
        self._asking: asyncio.Task[Mapping[str, int] | None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a probe, with the number of models by the place of their weights."""
        models = await self._state()
        if models is not None:
            response = JSONResponse({"status": "ok", "models": models})
        else:
            response = JSONResponse({"status": "unavailable"}, HTTPStatus.SERVICE_UNAVAILABLE)
        await response(scope, receive, send)

    async def answers(self) -> bool:
        """Return whether the server answers."""
        return await self._state() is not None

    async def _state(self) -> Mapping[str, int] | None:
        """Return the number of models by the place of their weights, none if a key is required; None: no answer."""
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

    async def _ask(self) -> Mapping[str, int] | None:
        try:
            models = await self._client.list_models(timeout=_SECONDS)
        except (ServerUnavailableError, DeadlineExceededError):
            return None
        except TranslationError:
            return {}
        return Counter(model.residency or "loaded" for model in models)


LEAST_SECONDS = 0.001
"""Time that a call of the server gets at its deadline; it does not take none."""
_GRACE_SECONDS = 0.5
"""Time after the deadline for the server's own answer about it."""

Answer = TypeVar("Answer")


class HungUpError(Exception):
    """The caller has closed the connection, so an answer has no reader."""


def deadline_in(seconds: float) -> float:
    """Return the monotonic time of a deadline."""
    return time.monotonic() + seconds


def seconds_until(deadline: float) -> float:
    """Return the seconds that are left, at least a millisecond."""
    return max(LEAST_SECONDS, deadline - time.monotonic())


async def within(
    work: Coroutine[Any, Any, Answer],
    *,
    deadline: float,
    health: Health,
    hung_up: Callable[[], Awaitable[Any]] | None = None,
) -> Answer:
    """Wait for an answer; when it does not come, cancel its work and wait for the end of all calls that it made.

    Args:
        deadline: Monotonic time of the deadline.
        hung_up: Function that returns when the caller has gone; None: the work is cancelled from outside.

    Raises:
        HungUpError: The caller has gone.
        RefusedError: The time is up, the server is lost, or the work raises it.
        TranslationError: The work raises it.
    """
    working = asyncio.ensure_future(work)
    lost = asyncio.ensure_future(health.lost())
    waiting: list[asyncio.Future[Any]] = [working, lost]
    if hung_up is not None:
        waiting.append(asyncio.ensure_future(hung_up()))
    seconds = seconds_until(deadline)
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED, timeout=seconds + _GRACE_SECONDS)
        if working.done():
            return working.result()
        if lost.done():
            raise _unavailable()
        if waiting[-1].done():
            raise HungUpError
        raise _late(seconds)
    finally:
        for each in waiting[1:]:
            each.cancel()
        if not working.done():
            working.cancel()
            with suppress(asyncio.CancelledError, TranslationError, RefusedError):
                await working


def _unavailable() -> RefusedError:
    fault = Fault(
        status=HTTPStatus.SERVICE_UNAVAILABLE,
        message="the translation server does not answer",
        reason="server_unavailable",
        retry_after=1,
    )
    return RefusedError(fault)


def _late(seconds: float) -> RefusedError:
    message = f"the request was not answered within {seconds:.3g} seconds"
    return RefusedError(Fault(status=HTTPStatus.GATEWAY_TIMEOUT, message=message, reason="deadline_exceeded"))
