"""Want of memory: a call that gets none may succeed elsewhere; a process that gets none ends."""

from __future__ import annotations

import logging
import mmap
import os
import sys
import threading
from typing import Any, Final

_LOGGER = logging.getLogger(__name__)
EXIT_STATUS: Final = 71
"""Status of a process that ended because it got no memory: EX_OSERR of `sysexits.h`."""
# A process that cannot get so much is at its end. Nothing writes to it, so the kernel only reserves it.
_LEAST_BYTES = 32 * 2**20
# Sought without a regular expression, which would need memory.
_WORDS = (
    "alloc",  # protobuf: "Arena alloc failed", onnxruntime: "Failed to allocate memory", C++: "bad_alloc"
    "out of memory",
    "start new thread",
    "without exception set",  # compiled code that had no memory for its exception
    "without setting an exception",
)


def is_want_of_memory(error: BaseException) -> bool:
    """Return whether an error, or one that it came of, says that the process got no memory.

    Another process may have it, or this one later; so it is no fault of the call.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError) or any(map(str(cause).__contains__, _WORDS)):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def end_without_memory() -> None:
    """End the process at once if it gets no memory; call this for any unexpected error.

    Without memory an error may say anything, and the ends of calls get lost. When the process ends, its callers know at
    once and can call another.
    """
    try:
        mmap.mmap(-1, _LEAST_BYTES).close()  # what the heap still has is one thread's, not another's
    except (MemoryError, OSError):
        try:
            _LOGGER.critical("no memory is left, so the process ends", extra={"wanted_bytes": _LEAST_BYTES})
        finally:
            os._exit(EXIT_STATUS)


def watch_memory() -> None:
    """Call `end_without_memory` for errors that only the interpreter's hooks see: those of threads and finalizers."""
    report_unraisable, report_thread = sys.unraisablehook, threading.excepthook

    def unraisable(unraised: Any) -> None:
        end_without_memory()
        report_unraisable(unraised)

    def ended_thread(ended: Any) -> None:
        end_without_memory()
        report_thread(ended)

    sys.unraisablehook, threading.excepthook = unraisable, ended_thread
