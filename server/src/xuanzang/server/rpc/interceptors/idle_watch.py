"""A limit on the time of many short waits, with one timer for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar, cast

T = TypeVar("T")


class IdleWatch:
    """Ends waits that take too long. Belongs to an event loop.

    Nearly all waits end after a moment. `asyncio.timeout` makes and cancels a timer for each of them; as all have the
    same limit they expire in the order in which they began, so that one timer, for the oldest, is enough.
    """

    def __init__(self, seconds: float) -> None:
        """Watch nothing yet.

        Args:
            seconds: Maximum time of a wait.
        """
        self._seconds = seconds
        # The oldest first.
        self._began: dict[asyncio.Task[Any], float] = {}
        self._expired: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None

    async def limited(self, awaited: Awaitable[T]) -> T:
        """Wait for something; a task has one such wait at a time.

        Args:
            awaited: What the running task waits for.

        Returns:
            Its result.

        Raises:
            TimeoutError: It took too long, and was cancelled.
        """
        loop, task = asyncio.get_running_loop(), cast("asyncio.Task[Any]", asyncio.current_task())
        self._began[task] = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(self._seconds, self._expire, loop)
        try:
            return await awaited
        except asyncio.CancelledError:
            if task in self._expired and task.uncancel() == 0:
                raise TimeoutError from None
            raise
        finally:
            del self._began[task]
            self._expired.discard(task)

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        """Cancel what has waited too long, and set the timer for the next one."""
        self._timer, now = None, loop.time()
        for task, began in self._began.items():
            if began + self._seconds > now:
                self._timer = loop.call_at(began + self._seconds, self._expire, loop)
                return
            if task not in self._expired:
                self._expired.add(task)
                task.cancel()
