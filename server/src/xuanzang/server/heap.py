"""The heap of the process: memory that was freed goes back to the system."""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable

_INTERVAL_SECONDS = 20.0


async def trim_heap_when_idle(is_idle: Callable[[], bool]) -> None:
    """Give freed memory back to the system while nothing runs, until cancelled; without glibc nothing is done.

    gRPC and onnxruntime allocate in many threads. glibc keeps what each of them freed, so that after a burst of calls,
    refused ones included, a server would stay at its largest size.

    Args:
        is_idle: Whether no RPC is in progress.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is None:
        return
    while True:
        await asyncio.sleep(_INTERVAL_SECONDS)
        if is_idle():
            # Takes milliseconds, and releases the interpreter's lock.
            await asyncio.to_thread(trim, 0)
