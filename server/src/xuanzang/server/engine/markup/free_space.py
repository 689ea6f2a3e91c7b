"""Characters of a translation that no sibling of an element has taken."""

from __future__ import annotations

from bisect import bisect_right, insort

from xuanzang.server.engine.markup.alignment import Span


class FreeSpace:
    """Characters of a parent, less those of the children that are placed already."""

    def __init__(self, within: Span) -> None:
        """Begin with all characters free.

        Args:
            within: First character, and the one after the last.
        """
        self.start, self.end = within
        self._taken: list[Span] = []

    def take(self, place: Span) -> None:
        """Take characters, all of them free.

        Args:
            place: First character, and the one after the last.
        """
        if place[0] < place[1]:
            insort(self._taken, place)

    def nearest(self, place: int) -> int:
        """Return the place, moved to where it is within no sibling."""
        place = min(max(place, self.start), self.end)
        index = bisect_right(self._taken, (place, place)) - 1
        start, end = self._taken[index] if index >= 0 else (place, place)
        if start < place < end:
            return start if place - start < end - place else end
        return place

    def gap_of(self, start: int, end: int) -> Span | None:
        """Return the free characters around some characters, or None if one of these is taken."""
        index = bisect_right(self._taken, (start, self.end))
        first = max(self.start, self._taken[index - 1][1] if index else self.start)
        last = min(self.end, self._taken[index][0] if index < len(self._taken) else self.end)
        return (first, last) if first <= start and end <= last else None

    def widest(self, start: int, end: int) -> Span | None:
        """Return the longest free stretch of some characters, or None if all are taken."""
        start, end = max(start, self.start), min(end, self.end)
        best: Span | None = None
        index = max(0, bisect_right(self._taken, (start, self.end)) - 1)
        for place in range(index, len(self._taken) + 1):
            first, last = self._taken[place] if place < len(self._taken) else (self.end, self.end)
            if start < min(first, end) and (best is None or min(first, end) - start > best[1] - best[0]):
                best = (start, min(first, end))
            start = max(start, last)
            if start >= end:
                break
        return best
