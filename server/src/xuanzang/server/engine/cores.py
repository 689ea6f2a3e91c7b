"""The number of cores that this process may use."""

from __future__ import annotations

import math
import os
from pathlib import Path

CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")
"""CPU quota of a container: microseconds of CPU time, or "max", and the microseconds of each period."""


def usable_cores(quota_file: Path = CPU_QUOTA) -> int:
    """Count the cores that the process may use, by its affinity and by the quota of its container.

    Args:
        quota_file: File in which the kernel shows the quota; it may be missing.

    Returns:
        Number of cores, >= 1.
    """
    cores = _cores_by_affinity()
    try:
        quota, period = quota_file.read_text().split()
        return min(cores, max(1, math.ceil(int(quota) / int(period))))
    except (OSError, ValueError):
        # No container, another kind of container, or no quota ("max").
        return cores


def _cores_by_affinity() -> int:
    # macOS has no affinity.
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
