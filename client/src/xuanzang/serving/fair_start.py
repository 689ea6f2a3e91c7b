"""Order in the beginning of calls: network addresses take turns, so that a crowd delays no other address."""

from __future__ import annotations

import asyncio
import heapq
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

_BEGUN_AT_ONCE: Final = 4
MAX_WAITING: Final = 4096
"""Maximum calls that have arrived and not begun; `room` waits for fewer."""
# Calls in progress of a large caller, such as a gateway, may all fail at once while many others have pauses.
_LONGEST_PAUSE = 5.0
_SEVERAL_SECONDS = 1.0
# If a turn is later than this, because earlier calls run, it begins one call, and the next turn is as much later.
_LATE_SECONDS = 0.003

Key = tuple[str, bool]
"""Network address, and whether its calls are probes."""


@dataclass(slots=True, kw_only=True)
class _Line:
    """Calls of one address that wait, and the pause that it owes to others."""

    key: Key
    waiting: deque[Callable[[], bool]] = field(default_factory=deque)
    paused_until: float = -math.inf
    is_paused: bool = False
    """True while it has an entry among the pauses."""
    is_ready: bool = False
    """True while it has a place among the ready lines."""


class FairStart:
    """Lets calls begin a few in each turn of the event loop, addresses in turn. Belongs to one event loop.

    The beginning of a call runs in the event loop, and most refusals consist of nothing else. In the order of arrival a
    crowd of 700 refused callers would delay each call of all others by 700 refusals. Refused callers come back, so
    their refusals have a limited rate while others call. The time of a turn grows with the calls that begin and the
    pauses that end, not with the addresses that wait.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, refusal_seconds: float) -> None:
        """Begin without waiting calls.

        Args:
            refusal_seconds: Pause of an address after each refusal while others call: a few times the event loop's work
                on it. It is longer by the number of addresses that have pauses.
        """
        self._loop, self._refusal_seconds = loop, refusal_seconds
        self._lines: dict[Key, _Line] = {}
        """Lines with waiting calls or a pause."""
        self._ready_lines: deque[_Line] = deque()
        """Lines with waiting calls, in turn. A pause may have come since."""
        self._pauses: list[tuple[float, Key]] = []
        """Heap of the times to look at each line that has a pause, which may have become longer since."""
        self._waiting = 0
        # Calls that have begun since the lines had their last turn.
        self._begun = 0
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
        """Begin a call now, or when it is the turn of its address.

        Args:
            address: Network address of its caller.
            begin: Begins it, and returns whether it was refused; raises nothing.
            is_probe: Whether it asks for the health of the server, and so waits for no other call of its address.
        """
        now = self._loop.time()
        if not is_probe and address != self._address:
            self._several_until = now + _SEVERAL_SECONDS if self._address else 0.0
            self._address = address
        line = self._line((address, is_probe), now)
        if self._begun < _BEGUN_AT_ONCE and not (line.waiting or line.is_paused):
            self._begin(line, begin)
            self._forget(line)
        else:
            line.waiting.append(begin)
            self._waiting += 1
            if self._waiting >= MAX_WAITING:
                self._has_room.clear()
            self._make_ready(line)
        self._plan(max(0.0, line.paused_until - now))

    def refused(self, address: str, *, refusals: int = 1) -> None:
        """Count a failed call from an address, which was as much work as `refusals` refusals."""
        line = self._line((address, False), self._loop.time())
        self._pause(line, refusals)
        self._forget(line)

    async def turn(self, address: str, *, is_probe: bool = False) -> None:
        """Wait until the next call from an address may begin."""
        begun: asyncio.Future[None] = self._loop.create_future()

        def begin() -> bool:
            if not begun.done():
                begun.set_result(None)
            return False

        self.add(address, begin, is_probe=is_probe)
        await begun

    async def room(self) -> None:
        """Wait until another call may wait here."""
        if self._waiting >= MAX_WAITING:
            await self._has_room.wait()

    def _line(self, key: Key, now: float) -> _Line:
        self._end_pauses(now)
        return self._lines.get(key) or self._lines.setdefault(key, _Line(key=key))

    def _forget(self, line: _Line) -> None:
        if not (line.waiting or line.is_paused):
            del self._lines[line.key]

    def _begin(self, line: _Line, begin: Callable[[], bool]) -> None:
        self._begun += 1
        if begin():
            self._pause(line, 1)

    def _pause(self, line: _Line, refusals: int) -> None:
        """Let a line wait after refusals, if there are other callers."""
        now = self._loop.time()
        if now < self._several_until:
            pause = refusals * self._refusal_seconds * max(1, len(self._pauses))
            line.paused_until = min(max(line.paused_until, now) + pause, now + _LONGEST_PAUSE)
            if not line.is_paused:
                line.is_paused = True
                heapq.heappush(self._pauses, (line.paused_until, line.key))

    def _end_pauses(self, now: float) -> None:
        """Let the lines take turns again whose pauses are over."""
        while self._pauses and self._pauses[0][0] <= now:
            line = self._lines[self._pauses[0][1]]
            if line.paused_until > now:
                heapq.heapreplace(self._pauses, (line.paused_until, line.key))
                continue
            heapq.heappop(self._pauses)
            line.is_paused = False
            self._make_ready(line)
            self._forget(line)

    def _make_ready(self, line: _Line) -> None:
        if line.waiting and not (line.is_ready or line.is_paused):
            line.is_ready = True
            self._ready_lines.append(line)

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
        """Begin the next calls: one of each line that does not pause, in turn."""
        now = self._loop.time()
        late, self._begun, self._next = now - self._due, 0, None
        if now < self._late_until:
            self._plan(self._late_until - now)
            return
        is_late = late > _LATE_SECONDS and now < self._several_until
        self._end_pauses(now)
        while self._ready_lines and self._begun < (1 if is_late else _BEGUN_AT_ONCE):
            line = self._ready_lines.popleft()
            line.is_ready = False
            if not line.is_paused:
                self._waiting -= 1
                self._begin(line, line.waiting.popleft())
                self._make_ready(line)
                self._forget(line)
        if self._waiting < MAX_WAITING:
            self._has_room.set()
        if is_late and self._waiting:
            self._late_until = now + late
            self._plan(late)
        elif self._waiting:
            self._plan(0.0 if self._ready_lines else max(0.0, self._pauses[0][0] - now))
        elif self._begun:
            self._plan(0.0)
