"""Pages of keys and values of all layers, in memory of the device that computes with them."""

from __future__ import annotations

import math
import mmap
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from onnxruntime import OrtValue

from xuanzang.server.engine.arrays import Array

# Smaller arrays come from the heap, where the next one finds pages that are in use already.
_HEAP_BYTES = 1 << 20
# Reserved address space takes no memory until it is written to.
_RESERVED_TIMES = 16
Tensor = Array | OrtValue
"""Input or output of a graph: in the memory of the process, or of the device that computes."""


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


class PageShape(NamedTuple):
    """Dimensions of one page of one tensor."""

    num_heads: int
    slots: int
    d_head: int


class PagePool:
    """Tensors [page, heads, slot, head] side by side, which the graphs read and write in place.

    A slot that has not been written yet is 0 or left over from another sentence; it is finite, which is all that a
    hidden slot must be.
    """

    def __init__(self, names: Sequence[str], shape: PageShape, *, dtype: npt.DTypeLike, device: str = "cpu") -> None:
        """Start without pages.

        Args:
            names: Names of the tensors.
            shape: Dimensions of a page.
            dtype: Type of keys and values.
            device: "cpu" or "cuda".
        """
        self._device = device
        # On a CPU the memory of the tensors, which may be more than they need; empty otherwise.
        self._memories = {name: PageMemory(shape, dtype=dtype) for name in names if device == "cpu"}
        self.tensors: dict[str, OrtValue] = {}
        """By name; replaced by `resize`."""
        self.count = 0
        """Pages."""
        self._show({name: np.zeros((0, *shape), dtype=dtype) for name in names})

    @property
    def nbytes(self) -> int:
        """Bytes of memory held."""
        if self._memories:
            return sum(memory.nbytes for memory in self._memories.values())
        return sum(tensor.tensor_size_in_bytes() for tensor in self.tensors.values())

    def resize(self, count: int, moves: Sequence[tuple[int, int]] = ()) -> None:
        """Change the number of pages at the end.

        On a device with memory of its own everything goes through the host, so `PageTable` asks for it rarely.

        Args:
            count: New number of pages.
            moves: Pages whose content moves before that, each with its destination.
        """
        if count == self.count and not moves:
            return
        held = self._arrays()
        for page, destination in moves:
            for array in held.values():
                array[destination] = array[page]
        for memory in self._memories.values():
            memory.hold(count)
        grown = self._arrays() if self._memories else {name: self._grown(array, count) for name, array in held.items()}
        self.count = count
        self._show(grown)

    def trim(self) -> None:
        """Give back the memory beyond the pages."""
        for memory in self._memories.values():
            memory.trim(self.count)
        if self._memories:
            self._show(self._arrays())

    def _arrays(self) -> dict[str, Array]:
        """Return the arrays that hold the pages; copies of them on a device with memory of its own."""
        if self._memories:
            return {name: memory.array for name, memory in self._memories.items()}
        return {name: tensor.numpy() for name, tensor in self.tensors.items()}

    def _grown(self, array: Array, count: int) -> Array:
        if len(array) >= count:
            return array
        grown = np.zeros((count, *array.shape[1:]), dtype=array.dtype)
        grown[: self.count] = array[: self.count]
        return grown

    def _show(self, arrays: Mapping[str, Array]) -> None:
        self.tensors = {
            name: OrtValue.ortvalue_from_numpy(array[: self.count], self._device) for name, array in arrays.items()
        }
