"""Measures for how long single callbacks hold an event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager


class LoopHolds:
    """Processor time of the longest callback; other processes and threads change it little."""

    def __init__(self) -> None:
        self.longest = 0.0
        """Seconds of the thread of the loop."""

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measure all callbacks of event loops while the context lasts."""
        run = asyncio.Handle._run

        def measured_run(handle: asyncio.Handle) -> None:
            began = time.thread_time()
            run(handle)
            self.longest = max(self.longest, time.thread_time() - began)

        asyncio.Handle._run = measured_run  # type: ignore[assignment,method-assign]
        try:
            yield
        finally:
            asyncio.Handle._run = run  # type: ignore[method-assign]
