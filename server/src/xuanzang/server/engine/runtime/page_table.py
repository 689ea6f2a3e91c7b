"""Which pages hold the slots of which sentence.

The slots of a sentence are numbered through its logical pages, 0, 1, 2 …; the table maps each to a page of the pool.
"""

from __future__ import annotations

import numpy as np

from xuanzang.server.engine.arrays import Ints, Order, extended

# onnxruntime sums 64 floats, or 2 rows, at a time. With a multiple of this many logical pages, of 32 slots each, the
# slots and pages of a sentence are summed in the same order for any width of the table, so that not even rounding
# depends on it.
_WIDTH_STEP = 2
# More free pages than this, and than pages in use, are given back, which moves others and makes new tensors for every
# layer. Without kernels attention computes free pages like any other.
_MAX_FREE = 12
# One spare page is made for this many pages, and kept: new pages mean new tensors, too.
_PAGES_PER_SPARE = 4


class PageTable:
    """The page of each logical page of each sentence. Pages are counted from 0; one without sentence is free."""

    def __init__(self, max_free: int = _MAX_FREE) -> None:
        """Start without sentences.

        Args:
            max_free: Free pages that are kept when sentences leave, however few are in use.
        """
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
        """Take in sentences, which have no pages yet.

        Args:
            indices: Batch indices, of sentences that have left or the next ones.
        """
        self.table = extended(self.table, int(indices.max()) + 1 - len(self.table), value=-1)
        self.release(indices)

    def release(self, indices: Ints) -> None:
        """Free the pages of sentences that have left."""
        left = self.table[indices]
        self.table[indices] = -1
        left = left[left >= 0]
        self.owners[left] = 0
        self._put_back(left)

    def select(self, order: Order) -> list[tuple[int, int]]:
        """Keep only some sentences, in the order given, and give back what is not needed.

        Returns:
            Pages whose content has to move, each with its destination.
        """
        gone = np.ones(len(self.table), dtype=bool)
        gone[order.kept] = False
        self.release(np.flatnonzero(gone))
        self.table = order.apply(self.table)
        self.own(order.moved)
        if self.width > _WIDTH_STEP:
            self._narrow()
        free = int(self.free_count[0])
        used = self.count - free
        return self._give_back(used) if free > max(used, self._max_free) else []

    def own(self, indices: Ints) -> None:
        """Give sentences the pages that they have in the table, after they have got other batch indices."""
        held = self.table[indices]
        sentences, entries = np.nonzero(held >= 0)
        self.owners[held[sentences, entries], 0] = indices[sentences]

    def _narrow(self) -> None:
        """Take away logical pages that no sentence has."""
        width = 1 + int(np.flatnonzero((self.table >= 0).any(axis=0)).max(initial=0))
        self.table = np.ascontiguousarray(self.table[:, : -(-width // _WIDTH_STEP) * _WIDTH_STEP])

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
        """Assign pages to sentences.

        Args:
            indices: Batch indices.
            logical_pages: Logical page of each, without a page so far.
        """
        wanted = sorted({*zip(indices.tolist(), logical_pages.tolist(), strict=True)})
        for number, owner in enumerate(wanted):
            if not self.free_count[0]:
                self._grow(len(wanted) - number + self.count // _PAGES_PER_SPARE)
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

    def _grow(self, more: int) -> None:
        added = np.arange(self.count, self.count + more)
        self.owners, self.free = extended(self.owners, more), extended(self.free, more)
        self._put_back(added[::-1])

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
