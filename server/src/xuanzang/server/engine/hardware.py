"""Cores and memory that this process may use, and how its threads share cores and treat denormal floats."""

from __future__ import annotations

import ctypes
import logging
import math
import os
import platform
import sys
import threading
from contextlib import suppress
from pathlib import Path

from xuanzang.kernels import Kernels, find_kernels

_LOGGER = logging.getLogger(__name__)

CONTROL_GROUPS = Path("/sys/fs/cgroup")
"""Control group of a container, as the kernel shows it inside: one folder (version 2), or one for each resource (1)."""

# Bits of MXCSR, the register of the vector units: denormal inputs are zero, denormal results become zero.
_DENORMALS_ARE_ZERO, _FLUSH_TO_ZERO = 1 << 6, 1 << 15
# Added to the niceness of threads that give way: two thirds of the share of others. More would cost them much beside
# other processes of the same control group.
_GIVING_WAY = 2

# The last of the eight words of the C library's floating-point environment is MXCSR.
_WORDS, _MXCSR = 8, 7

# Parameters of mallopt, which stay as they are once one was set, and the values that they reach by themselves under
# load: freeing larger and larger arrays doubles them up to here.
_TRIM_THRESHOLD, _MAX_TRIM_THRESHOLD = -1, 64 * 2**20
_MMAP_THRESHOLD, _MAX_MMAP_THRESHOLD = -3, 32 * 2**20
# Freeing a block of 64 kB or more makes the C library look at the end of the heap; one of 128 kB may lie elsewhere.
_CUTTING_BYTES = 96 * 2**10


def usable_cores(groups: Path = CONTROL_GROUPS) -> int:
    """Count the cores that the process may use: by its affinity, and by the quota of its container, if it is in one."""
    cores, (quota, period) = _cores_by_affinity(), _cpu_quota(groups)
    return min(cores, max(1, math.ceil(quota / period))) if quota > 0 and period > 0 else cores


def _cpu_quota(groups: Path) -> tuple[int, int]:
    """Return the microseconds of CPU time per period, and the period; 0 or less for no quota."""
    for read in (_quota_2, _quota_1):
        try:
            return read(groups)
        except (OSError, ValueError):
            # Another version, no container, or no quota ("max").
            continue
    return 0, 0


def _quota_2(groups: Path) -> tuple[int, int]:
    quota, period = (groups / "cpu.max").read_text().split()
    return int(quota), int(period)


def _quota_1(groups: Path) -> tuple[int, int]:
    quota, period = (int((groups / "cpu" / f"cpu.cfs_{name}_us").read_text()) for name in ("quota", "period"))
    return quota, period


def default_workers(provider: str, intra_op_threads: int) -> int:
    """Return the number of workers that use all cores, with the given threads each."""
    # A GPU runs the steps of one worker after another anyway.
    return 1 if provider == "cuda" else max(1, usable_cores() // intra_op_threads)


def _cores_by_affinity() -> int:
    # macOS has no affinity.
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory_limit(groups: Path = CONTROL_GROUPS) -> int:
    """Return the memory that the process may take: the limit of its container, or else all of the machine's."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):
            limits.append(int((groups / name).read_text()))
    return min(limits)


def cache_bytes(memory: int, weights_bytes: int) -> int:
    """Return the bytes that keys and values may take: half of what weights leave of a memory, 0 if they leave none."""
    return max(0, memory - weights_bytes) // 2


def processor(facts: Path = Path("/proc/cpuinfo")) -> str:
    """Describe the processor: its model and features, which decide how products are computed."""
    try:
        first, _, _ = facts.read_text(encoding="utf-8", errors="replace").partition("\n\n")
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    kept = ("vendor_id", "cpu family", "model", "stepping", "flags", "CPU ", "Features")
    return "\n".join(line for line in first.splitlines() if line.startswith(kept))


def flush_denormals() -> bool:
    """Let the calling thread, and threads that it starts later, treat denormal floats as zero, on Linux on x86-64.

    The exponentials of hidden positions pass through them on their way to 0 in the softmax of onnxruntime, which takes
    six times as long for it on Intel's processors: these leave denormals to microcode. Returns whether that was done.
    """
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    library = ctypes.CDLL(None)
    environment = (ctypes.c_uint32 * _WORDS)()
    library.fegetenv(environment)
    environment[_MXCSR] |= _DENORMALS_ARE_ZERO | _FLUSH_TO_ZERO
    library.fesetenv(environment)
    return True


def give_way() -> bool:
    """Let the other threads of the process go first where the calling thread and they want the same core.

    Returns whether the platform allows it: on Linux threads have priorities of their own.
    """
    if sys.platform != "linux":
        return False
    thread = threading.get_native_id()
    niceness = os.getpriority(os.PRIO_PROCESS, thread)
    os.setpriority(os.PRIO_PROCESS, thread, niceness + _GIVING_WAY)
    return True


def return_free_memory() -> bool:
    """Return the C library's free memory to the system, above all the calling thread's.

    Each thread has its own heap. `malloc_trim` frees the memory below a used block, in every heap, but not the end
    of a thread's heap: that is cut only when the thread frees a block and the end exceeds a threshold, which the C
    library raises to at most 64 MB.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    library = ctypes.CDLL(None)
    library.malloc.restype, library.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    library.mallopt(_TRIM_THRESHOLD, 0)
    library.free(library.malloc(_CUTTING_BYTES))
    library.mallopt(_TRIM_THRESHOLD, _MAX_TRIM_THRESHOLD)
    library.mallopt(_MMAP_THRESHOLD, _MAX_MMAP_THRESHOLD)
    library.malloc_trim(0)
    return True


def choose_kernels(provider: str, *, enabled: bool) -> Kernels:
    """Find the kernels for sessions on "cpu" or "cuda", or the reason that they get none."""
    if provider != "cpu":
        return Kernels(reason="provider", detail=f"kernels are for CPUs, the provider is {provider}")
    if not enabled:
        return Kernels(reason="disabled", detail="disabled by the setting kernels (--no-kernels)")
    return find_kernels()


def log_kernels(kernels: Kernels) -> None:
    """Log the instruction set of kernels, or why there are none: a warning unless somebody chose so."""
    if kernels.library:
        _LOGGER.info("kernels", extra={"isa": kernels.isa})
        return
    level = logging.INFO if kernels.reason in {"provider", "disabled"} else logging.WARNING
    _LOGGER.log(level, "no kernels", extra={"reason": kernels.reason, "detail": kernels.detail})
