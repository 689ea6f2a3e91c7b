"""Order of starting requests: network addresses take turns, so a crowd from one hardly delays the others."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection

from starlette.types import ASGIApp, Receive, Scope, Send

from xuanzang.gateway.limits import network_of

_BEGUN_AT_ONCE = 4


class FairStart:
    """ASGI application around another: network addresses take turns in beginning requests, and so do probes."""

    def __init__(self, app: ASGIApp, *, probes: Collection[str]) -> None:
        """Stand around an application."""
        self._app = app
        self._probes = probes
        self._queue = StartQueue()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on when it is its turn."""
        if scope["type"] == "http":
            is_probe = scope["path"] in self._probes
            await self._queue.turn("" if is_probe else network_of(scope["client"][0] if scope["client"] else ""))
        await self._app(scope, receive, send)


class StartQueue:
    """Lets requests begin a few at a time, sides in turn, so that a crowd on one side hardly delays the others.

    The beginning of a request, and often all of it, runs in the event loop. Belongs to one event loop.
    """

    def __init__(self) -> None:
        """Begin without waiting requests."""
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._begun = 0
        """Requests that have begun in this turn of the event loop."""

    async def turn(self, side: str) -> None:
        """Wait until the next request of one side may begin.

        Args:
            side: Name of the side, such as a network address.
        """
        loop = asyncio.get_running_loop()
        if self._begun < _BEGUN_AT_ONCE and not self._waiting:
            if not self._begun:
                loop.call_soon(self._go_on)
            self._begun += 1
            return
        waiting = loop.create_future()
        self._waiting.setdefault(side, deque()).append(waiting)
        await waiting

    def _go_on(self) -> None:
        self._begun = 0
        while self._waiting and self._begun < _BEGUN_AT_ONCE:
            side = next(iter(self._waiting))
            line = self._waiting.pop(side)
            following = line.popleft()
            if line:
                self._waiting[side] = line
            if not following.done():
                following.set_result(None)
                self._begun += 1
        if self._begun:
            asyncio.get_running_loop().call_soon(self._go_on)
