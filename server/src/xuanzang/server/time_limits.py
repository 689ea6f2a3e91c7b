"""Time limits of many tasks, with one timer of the event loop for all: hardly any of them is ever reached."""

from __future__ import annotations

import asyncio
import math
from types import TracebackType
from typing import Any

# A look takes a time that grows with the limits: callers with a thousand different deadlines would have as many.
_PAUSE_SECONDS = 0.005


class TimeLimits:
    """The limits that are in force. Belongs to one event loop."""

    def __init__(self) -> None:
        self.begun: dict[TimeLimit, None] = {}
        self.looks_at = math.inf
        """Time of the timer's next check; none expires earlier."""
        self._timer: asyncio.TimerHandle | None = None
        self._looked_at = -math.inf

    def look_at(self, time: float) -> None:
        """Look for limits that are over at a time, before which none is, or a moment after the last look."""
        if self._timer:
            self._timer.cancel()
        self.looks_at = max(time, self._looked_at + _PAUSE_SECONDS)
        self._timer = asyncio.get_running_loop().call_at(self.looks_at, self._look)

    def _look(self) -> None:
        self._looked_at = now = asyncio.get_running_loop().time()
        for limit in self.begun:
            if limit.until <= now:
                limit.reach()
        self.looks_at, self._timer = math.inf, None
        if waiting := [limit.until for limit in self.begun if not limit.is_over]:
            self.look_at(min(waiting))


class TimeLimit:
    """Cancels the task that is inside at a time, and raises TimeoutError then, as `asyncio.timeout_at` does.

    With a timer for each, as there, a limit takes eight times as many function calls.
    """

    __slots__ = ("_cancelling", "_limits", "_task", "is_over", "until")

    def __init__(self, limits: TimeLimits, until: float) -> None:
        """Make a limit that is not in force yet, on the clock of the loop."""
        self._limits, self.until = limits, until
        self.is_over = False
        """True if the time came while the task was inside."""

    def __enter__(self) -> TimeLimit:
        """Begin."""
        task: Any = asyncio.current_task()
        self._task: asyncio.Task[Any] = task
        self._cancelling = task.cancelling()
        self._limits.begun[self] = None
        if self.until < self._limits.looks_at:
            self._limits.look_at(self.until)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End; a cancellation by somebody else stays one."""
        del self._limits.begun[self]
        if self.is_over and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def reach(self) -> None:
        """Cancel the task, once."""
        if not self.is_over:
            self.is_over = True
            self._task.cancel()
