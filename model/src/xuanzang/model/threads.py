"""The number of CPU threads that makes torch fastest on the cores under their present load."""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch

_CGROUPS = Path("/sys/fs/cgroup")
_STEPS = 3
# A step this much slower than one thread's is decided at once, as three of them could take a minute.
_HOPELESS = 3.0
# More threads must gain this much, because measurements vary from step to step.
_WORTHWHILE = 0.9


def usable_threads(cgroups: Path = _CGROUPS) -> int:
    """Count the threads that can run at once: by affinity, the container's quota, and what torch was allowed.

    Args:
        cgroups: Folder of the container's limits; it need not exist.

    Returns:
        At least 1. torch's own number heeds OMP_NUM_THREADS and counts no core twice.
    """
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, int(min(affinity, torch.get_num_threads(), _quota(cgroups))))


class Measured(NamedTuple):
    """The fastest number of threads, and what shows it."""

    threads: int
    """Number of threads that torch has now."""
    seconds: dict[int, float]
    """Median time of a step, by number of threads."""

    def __str__(self) -> str:
        """Return the reason in a few words."""
        times = ", ".join(f"{seconds:.2g} s with {threads}" for threads, seconds in self.seconds.items())
        return f"a trial step takes {times}"


def fastest_threads(
    step: Callable[[], object], maximum: int, clock: Callable[[], float] = time.perf_counter
) -> Measured:
    """Time steps with one thread, half and all of the threads, and leave torch with the fastest number.

    On cores that other programs use too, threads wait for each other after every operation: two can be ten times slower
    than one.

    Args:
        step: One step of the work to come, which changes no state.
        maximum: Maximum number of threads, at least 1.
        clock: Function that returns the time, seconds.
    """
    best, measured = 1, {1: math.inf}
    for threads in sorted({1, max(1, maximum // 2), maximum}):
        torch.set_num_threads(threads)
        step()  # its memory and the threads are made once
        measured[threads] = _median_seconds(step, _HOPELESS * measured[best], clock)
        if measured[threads] < _WORTHWHILE * measured[best]:
            best = threads
    torch.set_num_threads(best)
    return Measured(best, measured)


def _median_seconds(step: Callable[[], object], hopeless: float, clock: Callable[[], float]) -> float:
    times: list[float] = []
    while len(times) < _STEPS and all(seconds < hopeless for seconds in times):
        started = clock()
        step()
        times.append(clock() - started)
    return statistics.median(times)


def _quota(cgroups: Path) -> float:
    """Return the cores that a container's quota amounts to; infinity without one."""
    try:
        if (cgroups / "cpu.max").exists():
            quota, period = (cgroups / "cpu.max").read_text().split()
        else:  # version 1
            quota, period = ((cgroups / "cpu" / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        return math.ceil(int(quota) / int(period)) if int(quota) > 0 else math.inf
    except (OSError, ValueError):
        return math.inf
