"""Work that grows with the input of a caller, kept off the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Final, TypeVar
from weakref import WeakValueDictionary

from xuanzang.server.engine.threads import Threads

SMALL_BYTES: Final = 8 * 2**10
"""Messages of up to this size are decoded and checked on the event loop, in two milliseconds at most."""
_THREADS = 2

Result = TypeVar("Result")


class Offloader:
    """A bounded pool of threads for large messages, with at most one thread per caller.

    Belongs to one event loop. Threads share the interpreter with the event loop, so a single call of compiled code must
    not be long either: work checks its limits first, and decodes messages in slices.
    """

    def __init__(self) -> None:
        self._threads = Threads(_THREADS, "messages")
        # Held while work of a caller is in the pool, so that the work of others finds a thread.
        self._turns: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()

    async def run(self, work: Callable[[], Result], *, caller: Hashable) -> Result:
        """Run work in a thread, after the caller's earlier work.

        Raises:
            DrainingError: The server is stopping.
        """
        async with self._turns.setdefault(caller, asyncio.Lock()):
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def close(self) -> None:
        """Refuse further work; work in progress goes on."""
        self._threads.shutdown(wait=False)
