"""Samples of a server's process: memory, files, threads, processor time."""

from __future__ import annotations

import os
import re
import urllib.request
from dataclasses import dataclass
from pathlib import Path

MEGABYTE = 1e6
_MAPPING = re.compile(r"([0-9a-f]+)-[0-9a-f]+ \S+ \S+ \S+ \d+ *(.*)")
# Alignment of glibc's heaps of threads.
_THREAD_HEAP = 64 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSample:
    """Resources that a server holds at one moment."""

    rss_mb: float
    """Resident memory in MB of a million bytes."""
    pss_mb: float
    """Resident memory, pages shared with other processes divided among them."""
    python_mb: float
    """Anonymous memory but the C library's heaps: Python's heap, above all, and large blocks."""
    fds: int
    """Open files, sockets included."""
    threads: int
    cache_mb: float
    """Memory for keys and values, as `nmt_cache_bytes` counts it."""
    cpu_seconds: float
    """Processor time since the start."""


def sample(pid: int, metrics_address: str) -> ProcessSample:
    """Read the figures of a server."""
    folder = Path(f"/proc/{pid}")
    memory = _fields(folder / "smaps_rollup")
    return ProcessSample(
        rss_mb=memory["Rss"] * 1024 / MEGABYTE,
        pss_mb=memory["Pss"] * 1024 / MEGABYTE,
        python_mb=_anonymous_bytes(folder / "smaps") / MEGABYTE,
        fds=len(list((folder / "fd").iterdir())),
        threads=_fields(folder / "status")["Threads"],
        cache_mb=metric(metrics_address, "nmt_cache_bytes") / MEGABYTE,
        cpu_seconds=_cpu_seconds(folder),
    )


def metric(address: str, name: str) -> float:
    """Return the sum of all series of a metric.

    Args:
        name: Name of a gauge or counter.
    """
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as response:
        lines = response.read().decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith((f"{name}{{", f"{name} ")))


def _anonymous_bytes(path: Path) -> int:
    """Sum up the resident parts of mappings without a file or name, except for glibc's heaps of threads."""
    is_counted, total = False, 0
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        if header := _MAPPING.fullmatch(line):
            is_counted = not header[2] and int(header[1], 16) % _THREAD_HEAP != 0
        elif is_counted and line.startswith("Rss:"):
            total += 1024 * int(line.split()[1])
    return total


def _fields(path: Path) -> dict[str, int]:
    """Read the numbers of a file with lines such as "Rss: 12 kB"."""
    lines = (line.split() for line in path.read_text(encoding="utf-8").splitlines())
    return {line[0].rstrip(":"): int(line[1]) for line in lines if len(line) > 1 and line[1].isdigit()}


def _cpu_seconds(folder: Path) -> float:
    # The name, in parentheses, may hold spaces; user and system time are the 12th and 13th fields after it.
    fields = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
