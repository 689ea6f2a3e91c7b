"""Pages of keys and values: their memory, the pool of all layers, and the table of each sentence's pages."""

from __future__ import annotations

import math
import mmap
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from onnxruntime import OrtValue

from xuanzang.server.engine.arrays import Array, Ints, Order, extended

# Smaller arrays come from the heap, where the next one finds pages that are in use already.
_HEAP_BYTES = 1 << 20
# Reserved address space takes no memory until it is written to.
_RESERVED_TIMES = 16
Tensor = Array | OrtValue
"""Input or output of a graph: in the memory of the process, or of the device that computes."""
# onnxruntime sums 64 floats, or 2 rows, at a time. With a multiple of this many logical pages, of 32 slots each, the
# slots and pages of a sentence are summed in the same order for any width of the table, so that not even rounding
# depends on it.
_WIDTH_STEP = 2
# More free pages than this, and than pages in use, are given back, which moves others and makes new tensors for every
# layer. Without kernels attention computes free pages like any other.
_MAX_FREE = 12
# One spare page is made for this many pages, and kept: new pages mean new tensors, too.
_PAGES_PER_SPARE = 4


class PageMemory:
    """An array [page, heads, slot, head] on a CPU, with room to grow in reserved address space once it is large.

    A copy to a larger array would hold both for a moment, and leave gaps in the heap that the next tensors do not fit.
    """

    def __init__(self, page: tuple[int, ...], *, dtype: npt.DTypeLike) -> None:
        self.array: Array = np.zeros((0, *page), dtype=dtype)
        """All pages there is room for; new ones are 0 or hold old content."""
        self._page_bytes = math.prod(page) * self.array.itemsize
        self._space: mmap.mmap | None = None
        self._held = 0

    @property
    def nbytes(self) -> int:
        """Bytes of memory held."""
        return self._held * self._page_bytes

    def hold(self, count: int) -> None:
        """Make room for a number of pages, unless there is already; the contents stay."""
        if count > len(self.array):
            before = self.array
            self._space = self._reserve(count)
            if self._space:
                self.array = np.frombuffer(self._space, before.dtype).reshape(-1, *before.shape[1:])
            else:
                self.array = np.zeros((count, *before.shape[1:]), dtype=before.dtype)
            self.array[: self._held] = before[: self._held]
        self._held = max(self._held, count)

    def trim(self, count: int) -> None:
        """Give back the memory beyond a number of pages."""
        if count >= self._held:
            return
        if self._space:
            start = -(-count * self._page_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
            self._space.madvise(mmap.MADV_DONTNEED, start, len(self._space) - start)
        else:
            self.array = self.array[:count].copy()
        self._held = count

    def _reserve(self, count: int) -> mmap.mmap | None:
        """Return separate address space for a large number of pages; None for few, or where unavailable."""
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

    A slot that has not been written yet is 0 or left over from another sentence; it is finite, which is enough for a
    hidden slot must be.
    """

    def __init__(self, names: Sequence[str], shape: PageShape, *, dtype: npt.DTypeLike, device: str = "cpu") -> None:
        self._device = device
        # On a CPU the memory of the tensors, which may be more than they need; empty otherwise.
        self._memories = {name: PageMemory(shape, dtype=dtype) for name in names if device == "cpu"}
        self.tensors: dict[str, OrtValue] = {}
        """By name; replaced by `resize`."""
        self.count = 0
        self.nbytes = 0
        """Bytes of memory held."""
        self._show({name: np.zeros((0, *shape), dtype=dtype) for name in names})

    def resize(self, count: int, moves: Sequence[tuple[int, int]] = ()) -> None:
        """Change the number of pages at the end.

        On a device with its own memory everything goes through the host, so `PageTable` asks for it rarely.
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
        """Return the arrays that hold the pages; copies of them on a device with its own memory."""
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
        if self._memories:
            self.nbytes = sum(memory.nbytes for memory in self._memories.values())
        else:
            self.nbytes = sum(tensor.tensor_size_in_bytes() for tensor in self.tensors.values())


class PageTable:
    """The page of each logical page of each sentence. Pages are counted from 0; one without sentence is free."""

    def __init__(self, max_free: int = _MAX_FREE) -> None:
        """Start without sentences; the given number of free pages is kept when sentences leave."""
        self._max_free = max_free
        self.table: Ints = np.zeros((0, _WIDTH_STEP), dtype=np.int64)
        """Page of each logical page of each sentence, or -1, [batch, logical page]."""
        self.owners: Ints = np.zeros((0, 2), dtype=np.int64)
        """Sentence and logical page of each page, (0, 0) for free ones, [page, 2]."""
        self.free: Ints = np.zeros(0, dtype=np.int64)
        """Pages without sentence, the next to be taken last, with room for all, [page]."""
        self.free_count: Ints = np.zeros(1, dtype=np.int64)
        """Number of free pages, [1]; changed in place."""

    @property
    def count(self) -> int:
        """Pages, free ones included."""
        return len(self.owners)

    @property
    def width(self) -> int:
        """Logical pages of each sentence."""
        return int(self.table.shape[1])

    def join(self, indices: Ints) -> None:
        """Take in sentences without pages at batch indices, of sentences that have left or the next ones."""
        self.table = extended(self.table, int(indices.max()) + 1 - len(self.table), value=-1)
        self.release(indices)

    def release(self, indices: Ints) -> None:
        """Free the pages of sentences that have left."""
        left = self.table[indices]
        self.table[indices] = -1
        left = left[left >= 0]
        if left.size:
            self.owners[left] = 0
            self._put_back(left)

    def select(self, order: Order) -> list[tuple[int, int]]:
        """Keep only some sentences, in the order given, and release the rest."""
        gone = np.ones(len(self.table), dtype=bool)
        gone[order.kept] = False
        self.release(np.flatnonzero(gone))
        self.table = order.apply(self.table)
        self.own(order.moved)
        if self.width > _WIDTH_STEP:
            # Logical pages that no sentence has are taken away.
            width = 1 + int(np.flatnonzero((self.table >= 0).any(axis=0)).max(initial=0))
            self.table = np.ascontiguousarray(self.table[:, : -(-width // _WIDTH_STEP) * _WIDTH_STEP])
        free = int(self.free_count[0])
        used = self.count - free
        return self._give_back(used) if free > max(used, self._max_free) else []

    def own(self, indices: Ints) -> None:
        """Give sentences the pages that they have in the table, after they have got other batch indices."""
        held = self.table[indices]
        sentences, entries = np.nonzero(held >= 0)
        self.owners[held[sentences, entries], 0] = indices[sentences]

    def compact(self) -> list[tuple[int, int]]:
        """Give back all free pages but the spare ones, after `select`."""
        self._index()
        used = self.count - int(self.free_count[0])
        return self._give_back(used) if self.count > used + used // _PAGES_PER_SPARE else []

    def widen(self, width: int) -> None:
        """Make room for a number of logical pages of each sentence, unless there is already."""
        more = -(-width // _WIDTH_STEP) * _WIDTH_STEP - self.width
        self.table = extended(self.table, more, axis=1, value=-1)

    def provide(self, indices: Ints, logical_pages: Ints) -> None:
        """Assign pages to sentences by batch indices and logical pages, which had none so far."""
        wanted = sorted({*zip(indices.tolist(), logical_pages.tolist(), strict=True)})
        for number, owner in enumerate(wanted):
            if not self.free_count[0]:
                more = len(wanted) - number + self.count // _PAGES_PER_SPARE
                added = np.arange(self.count, self.count + more)
                self.owners, self.free = extended(self.owners, more), extended(self.free, more)
                self._put_back(added[::-1])
            self.free_count -= 1
            page = self.free[self.free_count[0]]
            self.table[owner] = page
            self.owners[page] = owner

    def _give_back(self, used: int) -> list[tuple[int, int]]:
        count = used + used // _PAGES_PER_SPARE
        moving = self.table[self.table >= count].tolist()
        moves = list(zip(moving, np.sort(self.free[: self.free_count[0]]).tolist(), strict=False))
        for page, destination in moves:
            self.table[tuple(self.owners[page])] = destination
        self.owners, self.free = self.owners[:count], self.free[:count]
        self._index()
        return moves

    def _put_back(self, pages: Ints) -> None:
        """Add free pages, the next to be taken last."""
        count = self.free_count[0]
        self.free[count : count + len(pages)] = pages
        self.free_count += len(pages)

    def _index(self) -> None:
        """Find the owner of each page, and the pages without one."""
        held = self.table >= 0
        pages = self.table[held]
        self.owners[:] = 0
        self.owners[pages] = np.argwhere(held)
        taken = np.zeros(self.count, dtype=bool)
        taken[pages] = True
        self.free_count[0] = 0
        self._put_back(np.flatnonzero(~taken)[::-1])
