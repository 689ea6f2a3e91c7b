"""How many cores this process may use."""

from __future__ import annotations

import math
import os
from pathlib import Path

CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")
"""Of a container: microseconds of CPU time, or "max", in each period of so many microseconds."""


def usable_cores(quota_file: Path = CPU_QUOTA) -> int:
    """Count the cores that the process may use: by its affinity, and by the quota of its container.

    Args:
        quota_file: As the kernel shows it; it need not exist.

    Returns:
        At least 1.
    """
    cores = len(os.sched_getaffinity(0))
    try:
        quota, period = quota_file.read_text().split()
        return min(cores, max(1, math.ceil(int(quota) / int(period))))
    except (OSError, ValueError):
        # No container, another kind of container, or no quota ("max").
        return cores
