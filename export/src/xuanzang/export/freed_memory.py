"""Return of freed memory to the system."""

from __future__ import annotations

import ctypes
import gc


def return_freed_memory() -> None:
    """Free what refers to itself, such as graphs of onnxruntime, and let glibc give back what it keeps of it."""
    gc.collect()
    # Only glibc has it, and only there it is needed.
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)
