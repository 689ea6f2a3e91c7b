"""Samples of a server's process: memory, files, threads, processor time."""

from __future__ import annotations

import os
import urllib.request
from dataclasses import dataclass
from pathlib import Path

MEGABYTE = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSample:
    """What a server holds at one moment."""

    rss_mb: float
    """Resident memory in MB of a million bytes."""
    pss_mb: float
    """Resident memory, pages shared with other processes divided among them."""
    fds: int
    """Open files, sockets included."""
    threads: int
    cache_mb: float
    """Memory for keys and values, as `nmt_cache_bytes` counts it."""
    cpu_seconds: float
    """Processor time since the start."""


def sample(pid: int, metrics_address: str) -> ProcessSample:
    """Read the figures of a server.

    Args:
        pid: Its process.
        metrics_address: Address of its metrics.
    """
    folder = Path(f"/proc/{pid}")
    memory = _fields(folder / "smaps_rollup")
    return ProcessSample(
        rss_mb=memory["Rss"] * 1024 / MEGABYTE,
        pss_mb=memory["Pss"] * 1024 / MEGABYTE,
        fds=len(list((folder / "fd").iterdir())),
        threads=_fields(folder / "status")["Threads"],
        cache_mb=metric(metrics_address, "nmt_cache_bytes") / MEGABYTE,
        cpu_seconds=_cpu_seconds(folder),
    )


def metric(address: str, name: str) -> float:
    """Return the sum of all series of a metric.

    Args:
        address: Address of the metrics.
        name: Name of a gauge or counter.
    """
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as response:
        lines = response.read().decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith((f"{name}{{", f"{name} ")))


def _fields(path: Path) -> dict[str, int]:
    """Read the numbers of a file with lines such as "Rss: 12 kB"."""
    lines = (line.split() for line in path.read_text(encoding="utf-8").splitlines())
    return {line[0].rstrip(":"): int(line[1]) for line in lines if len(line) > 1 and line[1].isdigit()}


def _cpu_seconds(folder: Path) -> float:
    # The name, in parentheses, may hold spaces; user and system time are the 12th and 13th fields after it.
    fields = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
