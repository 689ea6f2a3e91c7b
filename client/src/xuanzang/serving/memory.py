"""Want of memory, whatever a library makes of it."""

from __future__ import annotations

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
