"""Memory of the pages of one tensor, which grows at its end without being copied."""

from __future__ import annotations

import math
import mmap

import numpy as np
import numpy.typing as npt

from xuanzang.server.engine.arrays import Array

# Smaller arrays come from the heap, where the next one finds pages that are in use already.
_HEAP_BYTES = 1 << 20
# Reserved address space takes no memory until it is written to.
_RESERVED_TIMES = 16


class PageMemory:
    """An array [page, heads, slot, head] on a CPU, with room to grow in reserved address space once it is large.

    A copy to a larger array would hold both for a moment, and leave gaps in the heap that the next tensors do not fit.
    """

    def __init__(self, page: tuple[int, ...], *, dtype: npt.DTypeLike) -> None:
        """Start without pages.

        Args:
            page: Dimensions of a page.
            dtype: Type of the elements.
        """
        self.array: Array = np.zeros((0, *page), dtype=dtype)
        """All pages there is room for; new ones are 0 or as they were given back."""
        self._page_bytes = math.prod(page) * self.array.itemsize
        self._space: mmap.mmap | None = None
        self._held = 0

    @property
    def nbytes(self) -> int:
        """Bytes of memory held."""
        return self._held * self._page_bytes

    def hold(self, count: int) -> None:
        """Make room for a number of pages, unless there is already; the contents stay.

        Args:
            count: Number of pages.
        """
        if count > len(self.array):
            self._move(count)
        self._held = max(self._held, count)

    def trim(self, count: int) -> None:
        """Give back the memory beyond a number of pages.

        Args:
            count: Number of pages.
        """
        if count >= self._held:
            return
        if self._space:
            start = -(-count * self._page_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
            self._space.madvise(mmap.MADV_DONTNEED, start, len(self._space) - start)
        else:
            self.array = self.array[:count].copy()
        self._held = count

    def _move(self, count: int) -> None:
        before, held = self.array, self._held
        self._space = self._reserve(count)
        if self._space:
            self.array = np.frombuffer(self._space, before.dtype).reshape(-1, *before.shape[1:])
        else:
            self.array = np.zeros((count, *before.shape[1:]), dtype=before.dtype)
        self.array[:held] = before[:held]

    def _reserve(self, count: int) -> mmap.mmap | None:
        """Return address space of its own for more pages than so many; None for few, or where there is none."""
        if count * self._page_bytes < _HEAP_BYTES or not hasattr(mmap, "MAP_PRIVATE"):
            return None
        try:
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
            return mmap.mmap(-1, _RESERVED_TIMES * count * self._page_bytes, flags=flags)
        except OSError:
            # A limit of the process, or a system that counts reserved memory as taken.
            return None
