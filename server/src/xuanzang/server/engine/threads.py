"""Threads: pools that say so when the server stops, the turns of callers in them, and calls for an event loop."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import time
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AsyncExitStack
from typing import Any, ClassVar, NamedTuple, ParamSpec, TypeVar, TypeVarTuple

from typing_extensions import override

from xuanzang.server.engine.errors import DrainingError
from xuanzang.server.engine.hardware import give_way
from xuanzang.server.engine.types import CallerId

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Ts = TypeVarTuple("Ts")

_LOGGER = logging.getLogger(__name__)

# Unlike those of os, and asyncio's own way, they do not give the interpreter's lock away: a thread that wakes the loop
# would get it back only when the loop has dealt with the call and all that comes of it.
_SYSTEM = ctypes.PyDLL(None)
_BUFFER = ctypes.create_string_buffer(4096)

# Others want the interpreter or the processor if work takes this multiple of its processor time.
_CONTENDED = 1.25
# Then the share's next work waits for this multiple of the processor time, which leaves three quarters to the others.
_PAUSE = 3.0
# The processor time of each second that takes no pause.
_FREE_SECONDS = 0.02


class Threads(ThreadPoolExecutor):
    """Threads that give way to the workers and to the event loop; once shut down, they refuse work as a drain does."""

    def __init__(self, count: int, name: str) -> None:
        super().__init__(count, thread_name_prefix=name, initializer=give_way)
        self._refuses = False

    @override
    def submit(
        self, work: Callable[Parameters, Result], /, *arguments: Parameters.args, **keywords: Parameters.kwargs
    ) -> Future[Result]:
        """Run work in a thread; DrainingError: the pool is shut down, MemoryError: the system gives no thread."""
        if self._refuses:
            raise DrainingError("the server stopped before the translation was begun")
        try:
            return super().submit(work, *arguments, **keywords)
        except RuntimeError as error:
            raise MemoryError("no thread can be started") from error

    @override
    def shutdown(self, *arguments: Any, **keywords: Any) -> None:
        self._refuses = True
        super().shutdown(*arguments, **keywords)


class _Spent(NamedTuple):
    """Seconds that some work took."""

    wall: float
    processor: float


class _Turn(asyncio.Lock):
    """Held while a thread works for a share of callers, or for a name; knows the pause that a share owes to others."""

    def __init__(self) -> None:
        super().__init__()
        self._spent, self._spent_at = 0.0, time.monotonic()

    def pause_after(self, spent: _Spent) -> float:
        """Take note of work, and return the seconds until the next may begin."""
        now = time.monotonic()
        self._spent = max(0.0, self._spent - _FREE_SECONDS * (now - self._spent_at)) + spent.processor
        self._spent_at = now
        if self._spent < _FREE_SECONDS or spent.wall < _CONTENDED * spent.processor:
            return 0.0
        return _PAUSE * spent.processor


class CallerThreads:
    """Turns of callers in a pool of threads: a share of callers has one thread at a time, and its names have turns.

    Belongs to one event loop. A turn lasts until its thread ends, even if its call is cancelled: a caller that hangs up
    and calls again would otherwise have all threads.
    """

    def __init__(self, threads: Executor, *, pauses: bool = False) -> None:
        """Give turns in a pool.

        Args:
            pauses: Whether a share has pauses between its turns while others want the interpreter: a thread that never
                waits would take half of it from the event loop.
        """
        self._threads, self._pauses = threads, pauses
        self._turns: weakref.WeakValueDictionary[str | CallerId, _Turn] = weakref.WeakValueDictionary()

    async def run(self, work: Callable[[], Result], *, caller: CallerId) -> Result:
        """Run work in a thread, after the caller's earlier work. Its calls of compiled code must be short.

        Raises:
            DrainingError: The pool is shut down.
        """
        # A name has at most one place in the line of its share.
        name, share = (self._turns.setdefault(owner, _Turn()) for owner in (caller, caller.share))
        async with AsyncExitStack() as turns:
            await turns.enter_async_context(name)
            await turns.enter_async_context(share)
            working = self._threads.submit(_timed, work)
            ending = asyncio.ensure_future(self._result(working, share, turns.pop_all()))
        try:
            return await asyncio.shield(ending)
        except asyncio.CancelledError:
            # Only if no thread has begun it.
            working.cancel()
            raise

    async def _result(self, working: Future[tuple[Result, _Spent]], share: _Turn, turns: AsyncExitStack) -> Result:
        """Hold turns until a thread and the pause after it have ended."""
        async with turns:
            result, spent = await asyncio.wrap_future(working)
            if self._pauses and (pause := share.pause_after(spent)):
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


class LoopInbox:
    """Calls for one event loop, which it makes in the order in which they are left, many in one turn."""

    _of_loops: ClassVar[weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, LoopInbox]] = weakref.WeakKeyDictionary()

    @classmethod
    def of_running_loop(cls) -> LoopInbox:
        """Return the inbox of the running loop, which is made with the first call."""
        loop = asyncio.get_running_loop()
        if (inbox := cls._of_loops.get(loop)) is None:
            inbox = cls._of_loops[loop] = cls(loop)
        return inbox

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let the loop look for calls; `of_running_loop` calls this."""
        # The loop holds the inbox, and goes with it.
        self._loop = weakref.ref(loop)
        self._calls: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._woken = False
        self._read_end, self._write_end = os.pipe()
        for end in (self._read_end, self._write_end):
            os.set_blocking(end, False)
            weakref.finalize(self, os.close, end).atexit = False  # threads may write to the last
        loop.add_reader(self._read_end, self._make_calls)

    def leave(self, callback: Callable[[*Ts], None], *arguments: *Ts) -> None:
        """Leave a call, from any thread; it is dropped if the loop has ended, and with it all that could await it."""
        loop = self._loop()
        if loop is None or loop.is_closed():
            _LOGGER.warning("result dropped: the event loop is closed")
            return
        self._calls.append((callback, arguments))
        # Two threads may both write, which does no harm.
        if not self._woken:
            self._woken = True
            try:
                _SYSTEM.write(self._write_end, b"\0", 1)
            except MemoryError:
                # Otherwise no later call would wake the loop.
                self._woken = False
                raise

    def _make_calls(self) -> None:
        _SYSTEM.read(self._read_end, _BUFFER, len(_BUFFER))
        # What is left from now on wakes the loop again.
        self._woken = False
        while self._calls:
            callback, arguments = self._calls.popleft()
            try:
                callback(*arguments)
            except Exception as error:  # noqa: BLE001 - the calls of others must be made
                self._report(error)

    def _report(self, error: Exception) -> None:
        if loop := self._loop():
            loop.call_exception_handler({"message": "a call left for the event loop failed", "exception": error})
