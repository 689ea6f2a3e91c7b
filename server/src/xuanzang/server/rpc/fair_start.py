"""The order of beginning RPCs: network addresses take turns, so a crowd from one hardly delays the others."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

_BEGUN_AT_ONCE: Final = 4
MAX_WAITING: Final = 4096
"""Maximum RPCs that have arrived and not begun; gRPC's core holds further ones, in the order of arrival."""
REFUSAL_SECONDS: Final = 0.001
"""Pause after each refusal of an unread RPC while several addresses call: a few times the event loop's work on it."""
_SEVERAL_SECONDS = 1.0
_Line = tuple[str, bool]


class FairStart:
    """Lets RPCs begin a few in each turn of the event loop, addresses in turn. Belongs to one event loop.

    The beginning of an RPC runs in the event loop, and most refusals consist of nothing else. In the order of arrival a
    crowd of 700 refused callers would delay each RPC of all others by 700 refusals. Refused callers come back, so while
    there are others, their refusals are given at a limited rate.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin without waiting RPCs."""
        self._loop = loop
        self._lines: dict[_Line, deque[Callable[[], bool]]] = {}
        self._waiting = 0
        self._is_planned = False
        # RPCs that have begun in this turn of the event loop, or in this pause.
        self._begun = 0
        # Refusals since the last pause, and the lines that they were given to, until the pause is over.
        self._refusals = 0
        self._refused: set[_Line] = set()
        # Address that called last, and the time until which there are others.
        self._address = ""
        self._several_until = 0.0
        self._has_room = asyncio.Event()
        self._has_room.set()

    def add(self, address: str, begin: Callable[[], bool], *, is_probe: bool = False) -> None:
        """Begin an RPC now, or when it is the turn of its address.

        Args:
            address: Network address of its caller.
            begin: Begins it, and returns whether it was refused; raises nothing.
            is_probe: Whether it asks for the health of the server, and so waits for no other RPC of its address.
        """
        line = address, is_probe
        if not is_probe and address != self._address:
            self._several_until = self._loop.time() + _SEVERAL_SECONDS if self._address else 0.0
            self._address = address
        if self._begun < _BEGUN_AT_ONCE and line not in self._lines and line not in self._refused:
            self._begin(line, begin)
            if not self._is_planned:
                self._is_planned = True
                self._loop.call_soon(self._go_on)
            return
        self._lines.setdefault(line, deque()).append(begin)
        self._waiting += 1
        if self._waiting >= MAX_WAITING:
            self._has_room.clear()

    async def room(self) -> None:
        """Wait until another RPC may wait here."""
        if self._waiting >= MAX_WAITING:
            await self._has_room.wait()

    def _begin(self, line: _Line, begin: Callable[[], bool]) -> None:
        self._begun += 1
        if begin() and self._loop.time() < self._several_until:
            self._refusals += 1
            self._refused.add(line)

    def _go_on(self) -> None:
        """Pause after refusals, then begin the next RPCs, one of each line after the other."""
        self._begun = 0
        if self._refusals:
            pause, self._refusals = REFUSAL_SECONDS * self._refusals, 0
            self._loop.call_later(pause, self._go_on)
            return
        self._refused.clear()
        while self._lines and self._begun < _BEGUN_AT_ONCE:
            line = next(iter(self._lines))
            waiting = self._lines.pop(line)
            begin = waiting.popleft()
            if waiting:
                self._lines[line] = waiting
            self._waiting -= 1
            self._begin(line, begin)
        if self._waiting < MAX_WAITING:
            self._has_room.set()
        self._is_planned = self._begun > 0
        if self._is_planned:
            self._loop.call_soon(self._go_on)
