"""Which pages hold the slots of which sentence."""

from __future__ import annotations

import numpy as np

from xuanzang.server.engine.arrays import Ints, extended

# onnxruntime sums 64 floats, or 2 rows, at a time. With so many places, of 32 slots each, the slots and pages of a
# sentence are summed in the same order whatever the width of the table, so that not even rounding depends on it.
_PLACES_STEP = 2
# More free pages than that, and than pages in use, are given back, which moves others and makes new tensors for every
# layer. Without kernels attention computes free pages like any other.
_MOST_FREE = 12
# With so many pages one more is made than is needed at once, and kept: new pages mean new tensors, too.
_PAGES_PER_SPARE = 4


class PageTable:
    """A place for each page of each sentence. Pages are counted from 0; one that stands nowhere is free."""

    def __init__(self, most_free: int = _MOST_FREE) -> None:
        """Start without sentences.

        Args:
            most_free: Free pages that are kept when others leave, however few are in use.
        """
        self._most_free = most_free
        self.table: Ints = np.zeros((0, _PLACES_STEP), dtype=np.int64)
        """Page at each place of each sentence, or -1, [batch, place]."""
        self.places: Ints = np.zeros((0, 2), dtype=np.int64)
        """Where in the table each page stands, as (sentence, place), (0, 0) for free ones; [page, 2]."""
        self._free: list[int] = []

    @property
    def count(self) -> int:
        """Pages, free ones included."""
        return len(self.places)

    @property
    def width(self) -> int:
        """Places of each sentence."""
        return int(self.table.shape[1])

    def join(self, rows: Ints) -> None:
        """Take in sentences, which have no pages yet.

        Args:
            rows: Of each: places that others have left, or the next ones.
        """
        self.table = extended(self.table, int(rows.max()) + 1 - len(self.table), value=-1)
        left = self.table[rows]
        self.table[rows] = -1
        left = left[left >= 0]
        self.places[left] = 0
        self._free += left.tolist()

    def select(self, order: Ints) -> list[tuple[int, int]]:
        """Keep only some sentences, in the order given, and give back pages and places that are not needed.

        Args:
            order: Rows, [batch].

        Returns:
            Pages whose content has to move, and where to.
        """
        table = self.table[order]
        width = 1 + int(np.flatnonzero((table >= 0).any(axis=0)).max(initial=0))
        self.table = np.ascontiguousarray(table[:, : -(-width // _PLACES_STEP) * _PLACES_STEP])
        self._index()
        used = self.count - len(self._free)
        return self._give_back(used) if len(self._free) > max(used, self._most_free) else []

    def widen(self, places: int) -> None:
        """Make room for so many pages of each sentence, if there is none yet."""
        more = -(-places // _PLACES_STEP) * _PLACES_STEP - self.width
        self.table = extended(self.table, more, axis=1, value=-1)

    def provide(self, rows: Ints, places: Ints) -> None:
        """Give sentences pages.

        Args:
            rows: Sentences.
            places: Of each, without a page.
        """
        wanted = sorted({*zip(rows.tolist(), places.tolist(), strict=True)})
        if (missing := len(wanted) - len(self._free)) > 0:
            self._grow(missing + self.count // _PAGES_PER_SPARE)
        for page, (row, place) in zip(self._free, wanted, strict=False):
            self.table[row, place] = page
            self.places[page] = row, place
        del self._free[: len(wanted)]

    def _give_back(self, used: int) -> list[tuple[int, int]]:
        count = used + used // _PAGES_PER_SPARE
        moving = self.table[self.table >= count].tolist()
        moves = list(zip(moving, self._free, strict=False))  # free pages are in order, lowest first
        for page, target in moves:
            self.table[tuple(self.places[page])] = target
        self.places = self.places[:count]
        self._index()
        return moves

    def _grow(self, more: int) -> None:
        self._free += range(self.count, self.count + more)
        self.places = extended(self.places, more)

    def _index(self) -> None:
        """Find out where each page stands, and which stand nowhere."""
        held = self.table >= 0
        pages = self.table[held]
        self.places[:] = 0
        self.places[pages] = np.argwhere(held)
        taken = np.zeros(self.count, dtype=bool)
        taken[pages] = True
        self._free = np.flatnonzero(~taken).tolist()
