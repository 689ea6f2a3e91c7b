"""Return of the pages of mapped files that were read once, such as weights that onnxruntime and kernels rearrange."""

from __future__ import annotations

import ctypes
import mmap
import re
from collections.abc import Collection, Iterator
from pathlib import Path

_MAPS = Path("/proc/self/smaps")
_HEADER = re.compile(r"([0-9a-f]+)-([0-9a-f]+) \S{4} \S+ \S+ \d+ +(/.*)")
_CHANGED = re.compile(r"Anonymous: +(\d+) kB")


def mappings(path: Path) -> frozenset[int]:
    """Return the addresses at which a file is mapped; none where the system does not tell, as only Linux does."""
    return frozenset(start for start, _ in _unchanged(path.resolve())) if _MAPS.exists() else frozenset()


def release_pages(path: Path, *, but: Collection[int] = ()) -> int:
    """Take the pages of a mapped file out of this process; what is used again comes back from the system's cache.

    Does nothing where the system does not tell what is mapped, as only Linux does. A mapping that another thread takes
    away at this moment must be left out: what came in its place would lose its content.

    Args:
        path: File that does not change.
        but: Addresses of mappings to leave alone.

    Returns:
        Bytes of the mappings whose pages were returned.
    """
    if not _MAPS.exists():
        return 0
    chosen = [(start, length) for start, length in _unchanged(path.resolve()) if start not in but]
    advise = ctypes.CDLL(None, use_errno=True).madvise
    for start, length in chosen:
        if advise(ctypes.c_void_p(start), ctypes.c_size_t(length), mmap.MADV_DONTNEED):
            raise OSError(ctypes.get_errno(), f"the pages of {path} cannot be returned")
    return sum(length for _, length in chosen)


def _unchanged(path: Path) -> Iterator[tuple[int, int]]:
    """Yield address and length of the mappings of a file of which no page was written to: those would be lost."""
    current: tuple[int, int] | None = None
    for line in _MAPS.read_text(encoding="utf-8", errors="replace").splitlines():
        if header := _HEADER.fullmatch(line):
            start, end = int(header[1], 16), int(header[2], 16)
            current = (start, end - start) if header[3] == str(path) else None
        elif current and (changed := _CHANGED.match(line)):
            if not int(changed[1]):
                yield current
            current = None
