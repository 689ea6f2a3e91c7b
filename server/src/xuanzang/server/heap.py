"""The heap of the process: memory that was freed goes back to the system."""

from __future__ import annotations

import asyncio
import ctypes
import gc
from collections.abc import Callable

_INTERVAL_SECONDS = 20.0
# Python's own 700 suit programs with few objects; under overload a third of the event loop's time went to collections.
_COLLECTED_OBJECTS = 10_000


def keep_heap() -> None:
    """Exempt all objects of now from garbage collection, and collect among later ones more rarely.

    Call it once what stays until the end has been loaded; `gc.unfreeze` is the opposite.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECTED_OBJECTS, *gc.get_threshold()[1:])


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
