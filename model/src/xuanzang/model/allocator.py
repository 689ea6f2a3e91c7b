"""One setting of glibc's malloc that doubles the speed of training on a CPU."""

from __future__ import annotations

import ctypes
import platform

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4


def keep_freed_memory() -> None:
    """Keep freed memory in the process instead of giving it back to the system.

    By default glibc maps every large block anew, and the kernel zeroes its pages at first touch. A training step frees and
    takes the same hundreds of megabytes each time: 2.4 thousand target tokens/s became 5.0 on 2 cores without that.
    Does nothing without glibc.
    """
    if platform.libc_ver()[0] != "glibc":
        return
    libc = ctypes.CDLL(None)
    for parameter, value in ((_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, -1), (_M_TOP_PAD, 2**28)):
        libc.mallopt(parameter, value)
