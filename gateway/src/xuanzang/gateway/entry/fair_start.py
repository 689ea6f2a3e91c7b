"""The order of beginning requests: network addresses take turns, so a crowd from one hardly delays the others."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection
from functools import partial
from http import HTTPStatus
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from xuanzang.gateway.limits import network_of

_BEGUN_AT_ONCE = 4
REFUSAL_SECONDS: Final = 0.005
"""Pause after each refused request while several addresses call: a few times the event loop's work on it."""
_SEVERAL_SECONDS = 1.0


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
            side = "" if is_probe else network_of(scope["client"][0] if scope["client"] else "")
            await self._queue.turn(side)
            send = partial(self._sending, send, side)
        await self._app(scope, receive, send)

    async def _sending(self, send: Send, side: str, message: Message) -> None:
        """Send a part of an answer."""
        if message["type"] == "http.response.start" and message["status"] >= HTTPStatus.BAD_REQUEST:
            self._queue.refused(side)
        await send(message)


class StartQueue:
    """Lets requests begin a few at a time, sides in turn, so that a crowd on one side hardly delays the others.

    The beginning of a request, and often all of it, runs in the event loop. A refused caller comes back, so while there
    are other sides, each refusal is followed by a pause for all sides that wait. Belongs to one event loop.
    """

    def __init__(self) -> None:
        """Begin without waiting requests."""
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._is_planned = False
        self._begun = 0
        """Requests that have begun in this turn of the event loop, or in this pause."""
        self._refusals = 0
        """Refusals since the last pause."""
        self._refused: set[str] = set()
        """Sides that had one, until the pause is over."""
        # Side that called last, and the time until which there are others.
        self._side = ""
        self._several_until = 0.0

    async def turn(self, side: str) -> None:
        """Wait until the next request of one side may begin.

        Args:
            side: Name of the side, such as a network address; empty for probes.
        """
        loop = asyncio.get_running_loop()
        if side not in ("", self._side):
            self._several_until = loop.time() + _SEVERAL_SECONDS if self._side else 0.0
            self._side = side
        if self._begun < _BEGUN_AT_ONCE and side not in self._waiting and side not in self._refused:
            self._begun += 1
            self._plan()
            return
        waiting = loop.create_future()
        self._waiting.setdefault(side, deque()).append(waiting)
        await waiting

    def refused(self, side: str) -> None:
        """Take note that a request of one side was refused."""
        if side and asyncio.get_running_loop().time() < self._several_until:
            self._refusals += 1
            self._refused.add(side)
            self._plan()

    def _plan(self) -> None:
        if not self._is_planned:
            self._is_planned = True
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        """Pause after refusals, then let the next requests begin, one of each side after the other."""
        self._begun = 0
        if self._refusals:
            pause, self._refusals = REFUSAL_SECONDS * self._refusals, 0
            asyncio.get_running_loop().call_later(pause, self._go_on)
            return
        self._refused.clear()
        while self._waiting and self._begun < _BEGUN_AT_ONCE:
            side = next(iter(self._waiting))
            line = self._waiting.pop(side)
            following = line.popleft()
            if line:
                self._waiting[side] = line
            if not following.done():
                following.set_result(None)
                self._begun += 1
        self._is_planned = self._begun > 0
        if self._is_planned:
            asyncio.get_running_loop().call_soon(self._go_on)
