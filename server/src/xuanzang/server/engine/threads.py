"""Threads: pools that say so when the server stops, and what threads leave for an event loop."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ClassVar, ParamSpec, TypeVar, TypeVarTuple

from typing_extensions import override

from xuanzang.server.engine.errors import DrainingError
from xuanzang.server.engine.hardware import give_way

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Ts = TypeVarTuple("Ts")

_LOGGER = logging.getLogger(__name__)

# Unlike those of os, and asyncio's own way, they do not give the interpreter's lock away: a thread that wakes the loop
# would get it back only when the loop has dealt with the call and all that comes of it.
_SYSTEM = ctypes.PyDLL(None)
_BUFFER = ctypes.create_string_buffer(4096)


class Threads(ThreadPoolExecutor):
    """Threads that give way to the workers and to the event loop; once shut down, they refuse work as a drain does."""

    def __init__(self, count: int, name: str) -> None:
        super().__init__(count, thread_name_prefix=name, initializer=give_way)
        self._refuses = False

    @override
    def submit(
        self, work: Callable[Parameters, Result], /, *arguments: Parameters.args, **keywords: Parameters.kwargs
    ) -> Future[Result]:
        """Run work in a thread; DrainingError: the pool is shut down."""
        if self._refuses:
            raise DrainingError("the server stopped before the translation was begun")
        return super().submit(work, *arguments, **keywords)

    @override
    def shutdown(self, *arguments: Any, **keywords: Any) -> None:
        self._refuses = True
        super().shutdown(*arguments, **keywords)


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
            _SYSTEM.write(self._write_end, b"\0", 1)

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
