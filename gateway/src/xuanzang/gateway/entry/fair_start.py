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
"""Pause of an address after each refused request while others call: a few times the event loop's work on it. It is
longer by the number of addresses that have pauses."""
_SEVERAL_SECONDS = 1.0
# Requests in progress of a large network may all fail at once while many others have pauses.
_LONGEST_PAUSE = 5.0


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
    are other sides, each refusal lets its side pause. Belongs to one event loop.
    """

    def __init__(self) -> None:
        """Begin without waiting requests."""
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._begun = 0
        """Requests that have begun since the sides had their last turn."""
        self._paused_until: dict[str, float] = {}
        # Side that called last, and the time until which there are others.
        self._side = ""
        self._several_until = 0.0
        # The next turn of the sides, and the time that it is planned for.
        self._next: asyncio.Handle | None = None
        self._due = 0.0

    async def turn(self, side: str) -> None:
        """Wait until the next request of one side may begin.

        Args:
            side: Name of the side, such as a network address; empty for probes.
        """
        now = asyncio.get_running_loop().time()
        if side not in ("", self._side):
            self._several_until = now + _SEVERAL_SECONDS if self._side else 0.0
            self._side = side
        pause = max(0.0, self._paused_until.get(side, now) - now)
        begins = self._begun < _BEGUN_AT_ONCE and side not in self._waiting and not pause
        self._plan(pause)
        if begins:
            self._begun += 1
            return
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(side, deque()).append(waiting)
        await waiting

    def refused(self, side: str) -> None:
        """Take note that a request of one side was refused."""
        now = asyncio.get_running_loop().time()
        if side and now < self._several_until:
            pause = REFUSAL_SECONDS * max(1, len(self._paused_until))
            until = max(self._paused_until.get(side, now), now) + pause
            self._paused_until[side] = min(until, now + _LONGEST_PAUSE)

    def _plan(self, pause: float) -> None:
        """Give the sides their turn after a pause at the latest; without one in the next turn of the event loop."""
        loop = asyncio.get_running_loop()
        due = loop.time() + pause
        if self._next is not None:
            if self._due <= due:
                return
            self._next.cancel()
        self._due = due
        self._next = loop.call_later(pause, self._go_on) if pause else loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        """Let the next requests begin, one of each side after the other, of those that do not pause."""
        now = asyncio.get_running_loop().time()
        self._begun, self._next = 0, None
        ready = deque(side for side in self._waiting if self._paused_until.get(side, now) <= now)
        while ready and self._begun < _BEGUN_AT_ONCE:
            side = ready.popleft()
            line = self._waiting.pop(side)
            following = line.popleft()
            if line:
                self._waiting[side] = line
                ready.append(side)
            if not following.done():
                following.set_result(None)
                self._begun += 1
        self._paused_until = {side: until for side, until in self._paused_until.items() if until > now}
        if self._waiting:
            self._plan(max(0.0, min([self._paused_until.get(side, now) for side in self._waiting]) - now))
        elif self._begun:
            self._plan(0.0)
