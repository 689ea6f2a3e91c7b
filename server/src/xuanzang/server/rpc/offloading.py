"""Work that grows with the input of a caller, kept off the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable
from typing import Final, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from xuanzang.server.engine.threads import Threads

SMALL_BYTES: Final = 8 * 2**10
"""Messages of up to this size are decoded and checked on the event loop, in two milliseconds at most."""
_THREADS = 2
# Others want the interpreter or the processor if work takes this multiple of its processor time.
_CONTENDED = 1.25
# Then the caller's next work waits for this multiple of the processor time, which leaves three quarters to the others.
_PAUSE = 3.0
# The processor time of each second that takes no pause.
_FREE_SECONDS = 0.02

Result = TypeVar("Result")


class _Spent(NamedTuple):
    """Seconds that some work took."""

    wall: float
    processor: float


class _Turns:
    """Turns of one caller: a lock for its work in the pool, and the pause that the next one owes to others."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self._spent, self._spent_at = 0.0, time.monotonic()

    def pause_after(self, spent: _Spent) -> float:
        """Take note of work, and return the seconds until the next may begin."""
        now = time.monotonic()
        self._spent = max(0.0, self._spent - _FREE_SECONDS * (now - self._spent_at)) + spent.processor
        self._spent_at = now
        if self._spent < _FREE_SECONDS or spent.wall < _CONTENDED * spent.processor:
            return 0.0
        return _PAUSE * spent.processor


class Offloader:
    """A bounded pool of threads for large messages, with at most one thread per caller.

    Belongs to one event loop. Threads share the interpreter with the event loop, so a single call of compiled code must
    not be long either: work checks its limits first, and decodes messages in slices. The slices of a caller have pauses
    between them while others want the interpreter: a thread that never waits would take half of it.
    """

    def __init__(self) -> None:
        self._threads = Threads(_THREADS, "messages")
        # Held while work of a caller is in the pool, so that the work of others finds a thread.
        self._turns: WeakValueDictionary[Hashable, _Turns] = WeakValueDictionary()

    async def run(self, work: Callable[[], Result], *, caller: Hashable) -> Result:
        """Run work in a thread, after the caller's earlier work.

        Raises:
            DrainingError: The server is stopping.
        """
        turns = self._turns.setdefault(caller, _Turns())
        async with turns.lock:
            result, spent = await asyncio.get_running_loop().run_in_executor(self._threads, _timed, work)
            if pause := turns.pause_after(spent):
                await asyncio.sleep(pause)
            return result

    def close(self) -> None:
        """Refuse further work; work in progress goes on."""
        self._threads.shutdown(wait=False)


def _timed(work: Callable[[], Result]) -> tuple[Result, _Spent]:
    """Do some work, and return its result and the seconds that it took."""
    began, processor = time.perf_counter(), time.thread_time()
    result = work()
    return result, _Spent(time.perf_counter() - began, time.thread_time() - processor)
