"""Floats so small that processors compute with them slowly."""

from __future__ import annotations

import ctypes
import platform
import sys

# Bits of MXCSR, the register of the vector units: denormal inputs are zero, denormal results become zero.
_DENORMALS_ARE_ZERO, _FLUSH_TO_ZERO = 1 << 6, 1 << 15
# Of the eight words in which the C library keeps a thread's floating-point environment, the last is MXCSR.
_WORDS, _MXCSR = 8, 7


def flush_denormals() -> bool:
    """Let the calling thread, and those it starts from now on, take denormal floats for zero.

    The exponentials of hidden positions pass through them on their way to 0 in the softmax of onnxruntime, which takes
    Intel's processors six times as long for it: they leave denormals to microcode.

    Returns:
        Whether it could be done: on Linux on x86-64.
    """
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    library = ctypes.CDLL(None)
    environment = (ctypes.c_uint32 * _WORDS)()
    library.fegetenv(environment)
    environment[_MXCSR] |= _DENORMALS_ARE_ZERO | _FLUSH_TO_ZERO
    library.fesetenv(environment)
    return True
