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
"""Pause of an address after each refusal of an unread RPC while others call: a few times the event loop's work on it.
It is longer by the number of addresses that have pauses."""
_REFUSALS_OF_FAILURE = 4
# Calls in progress of a large caller, such as a gateway, may all fail at once while many others have pauses.
_LONGEST_PAUSE = 5.0
_SEVERAL_SECONDS = 1.0
# Beyond this delay of a turn, in which earlier RPCs go on, one waiting RPC begins, the next ones after as long again.
_LATE_SECONDS = 0.003
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
        # RPCs that have begun since the lines had their last turn.
        self._begun = 0
        self._paused_until: dict[_Line, float] = {}
        self._late_until = 0.0
        # Address that called last, and the time until which there are others.
        self._address = ""
        self._several_until = 0.0
        # The lines' next turn, and the time that it is planned for.
        self._next: asyncio.Handle | None = None
        self._due = 0.0
        self._has_room = asyncio.Event()
        self._has_room.set()

    def add(self, address: str, begin: Callable[[], bool], *, is_probe: bool = False) -> None:
        """Begin an RPC now, or when it is the turn of its address.

        Args:
            address: Network address of its caller, as `network_of` returns it.
            begin: Begins it, and returns whether it was refused; raises nothing.
            is_probe: Whether it asks for the health of the server, and so waits for no other RPC of its address.
        """
        line, now = (address, is_probe), self._loop.time()
        if not is_probe and address != self._address:
            self._several_until = now + _SEVERAL_SECONDS if self._address else 0.0
            self._address = address
        pause = self._paused_until.get(line, now) - now
        if self._begun < _BEGUN_AT_ONCE and line not in self._lines and pause <= 0:
            self._begin(line, begin)
        else:
            self._lines.setdefault(line, deque()).append(begin)
            self._waiting += 1
            if self._waiting >= MAX_WAITING:
                self._has_room.clear()
        self._plan(max(0.0, pause))

    def failed(self, address: str) -> None:
        """Take note that an RPC from an address failed after it was read, which is as much work as some refusals."""
        self._pause((address, False), _REFUSALS_OF_FAILURE)

    async def room(self) -> None:
        """Wait until another RPC may wait here."""
        if self._waiting >= MAX_WAITING:
            await self._has_room.wait()

    def _begin(self, line: _Line, begin: Callable[[], bool]) -> None:
        self._begun += 1
        if begin():
            self._pause(line, 1)

    def _pause(self, line: _Line, refusals: int) -> None:
        """Let a line wait after refusals, if there are other callers."""
        now = self._loop.time()
        if now < self._several_until:
            pause = refusals * REFUSAL_SECONDS * max(1, len(self._paused_until))
            until = max(self._paused_until.get(line, now), now) + pause
            self._paused_until[line] = min(until, now + _LONGEST_PAUSE)

    def _plan(self, pause: float) -> None:
        """Give the lines their turn after a pause at the latest; without one in the next turn of the event loop."""
        due = self._loop.time() + pause
        if self._next is not None:
            if self._due <= due:
                return
            self._next.cancel()
        self._due = due
        self._next = self._loop.call_later(pause, self._go_on) if pause else self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        """Begin the next RPCs, one of each line after the other, of those that do not pause."""
        now = self._loop.time()
        late, self._begun, self._next = now - self._due, 0, None
        if now < self._late_until:
            self._plan(self._late_until - now)
            return
        is_late = late > _LATE_SECONDS and now < self._several_until
        ready = deque(line for line in self._lines if self._paused_until.get(line, now) <= now)
        while ready and self._begun < (1 if is_late else _BEGUN_AT_ONCE):
            line = ready.popleft()
            waiting = self._lines.pop(line)
            self._begin(line, waiting.popleft())
            self._waiting -= 1
            if waiting:
                self._lines[line] = waiting
                if self._paused_until.get(line, now) <= now:
                    ready.append(line)
        self._paused_until = {line: until for line, until in self._paused_until.items() if until > now}
        if self._waiting < MAX_WAITING:
            self._has_room.set()
        if is_late and self._lines:
            self._late_until = now + late
            self._plan(late)
        elif self._lines:
            self._plan(max(0.0, min([self._paused_until.get(line, now) for line in self._lines]) - now))
        elif self._begun:
            self._plan(0.0)
