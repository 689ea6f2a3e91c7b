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
        self.next_check = math.inf
        """Time of the timer's next check; none expires earlier."""
        self._timer: asyncio.TimerHandle | None = None
        self._last_check = -math.inf

    def check_at(self, time: float) -> None:
        """Check the limits at a time before which none is over, but no sooner than a moment after the last check."""
        if self._timer:
            self._timer.cancel()
        self.next_check = max(time, self._last_check + _PAUSE_SECONDS)
        self._timer = asyncio.get_running_loop().call_at(self.next_check, self._check)

    def _check(self) -> None:
        self._last_check = now = asyncio.get_running_loop().time()
        for limit in sorted((each for each in self.begun if each.until <= now), key=lambda each: each.until):
            limit.reach()
        self.next_check, self._timer = math.inf, None
        if waiting := [limit.until for limit in self.begun if not limit.is_over]:
            self.check_at(min(waiting))


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
        if self.until < self._limits.next_check:
            self._limits.check_at(self.until)
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
