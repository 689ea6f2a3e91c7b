"""A queue in which callers take turns, and from which sentences of like lengths are taken together."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from operator import itemgetter

from xuanzang.server.engine.scheduling.request import QueuedSentence

# What a caller may take per round, in predicted tokens: a few sentences of usual length at a usual beam size.
_QUANTUM = 256
# A sentence waits for at most this many times the sentences that it would wait for if the oldest always went first.
_PATIENCE = 2
# Which sentences go first.
_DUE, _AHEAD, _BEHIND = range(3)


@dataclass(slots=True, kw_only=True)
class Sweep:
    """Where a taker is on its way through the lengths: up to the longest sentence that waits, and down again.

    A batch costs as much as its longest sentence does, so sentences of like lengths should be in it; the elevator's way
    (SCAN, as disks are read) gets at all of them.
    """

    length: int = 0
    """Source tokens of the last sentence that was taken."""
    upward: bool = True

    def move(self, length: int) -> None:
        """Go to a length, and on in its direction from there."""
        if length != self.length:
            self.upward = length > self.length
        self.length = length


class _Flow:
    """What one caller has waiting."""

    def __init__(self) -> None:
        # Oldest first, each with its number and when it is due.
        self.sentences: dict[QueuedSentence, tuple[int, int]] = {}
        # Source tokens, number and sentence, in this order.
        self.by_length: list[tuple[int, int, QueuedSentence]] = []
        self.cost = 0
        self.deficit = _QUANTUM

    def add(self, queued: QueuedSentence, number: int, due: int) -> None:
        self.sentences[queued] = (number, due)
        key = (queued.source_tokens, number, queued)
        self.by_length.insert(bisect_left(self.by_length, key), key)
        self.cost += queued.cost

    def remove(self, queued: QueuedSentence) -> None:
        number, _ = self.sentences.pop(queued)
        del self.by_length[bisect_left(self.by_length, (queued.source_tokens, number))]
        self.cost -= queued.cost

    def next(self, sweep: Sweep, now: int) -> tuple[tuple[int, int], QueuedSentence]:
        """Return the oldest sentence if it is due, else the nearest ahead, else the nearest behind; first its rank."""
        oldest, (_, due) = next(iter(self.sentences.items()))
        if now >= due:
            return (_DUE, due), oldest
        # The first one that is longer than what lies behind on the way up, or ahead on the way down.
        longer = bisect_left(self.by_length, (sweep.length + (not sweep.upward),))
        is_behind = longer == (len(self.by_length) if sweep.upward else 0)
        place = longer if sweep.upward != is_behind else self._first_like(longer - 1)
        length, _, queued = self.by_length[place]
        return (_BEHIND if is_behind else _AHEAD, abs(length - sweep.length)), queued

    def _first_like(self, place: int) -> int:
        """Return the place of the oldest sentence that is as long as the one at a place."""
        return bisect_left(self.by_length, (self.by_length[place][0],))


class FairQueue:
    """Deficit round-robin over callers by predicted tokens (Shreedhar and Varghese 1995). Its owner guards it.

    Whoever takes chooses among the sentences of all callers who have not had their share of the round.
    """

    def __init__(self) -> None:
        # Callers without waiting sentences have no entry.
        self._flows: dict[str, _Flow] = {}
        self._numbers = count()
        self._taken = 0
        self.count = 0
        """Sentences."""
        self.cost = 0
        """Predicted tokens."""

    def backlog(self, caller: str) -> int:
        """Return the predicted tokens that a caller has waiting."""
        flow = self._flows.get(caller)
        return flow.cost if flow else 0

    def cost_ahead(self, caller: str) -> int:
        """Return the predicted tokens that are taken before a sentence that a caller would add now."""
        own = self.backlog(caller)
        # While the caller's own are taken, every other gets as many, if it has them.
        return sum(min(flow.cost, own) for flow in self._flows.values())

    def add(self, sentences: Iterable[QueuedSentence]) -> None:
        """Add sentences."""
        added = list(sentences)
        self.count += len(added)
        self.cost += sum(queued.cost for queued in added)
        due = self._taken + _PATIENCE * self.count
        for queued in added:
            self._flows.setdefault(queued.request.caller, _Flow()).add(queued, next(self._numbers), due)

    def remove(self, sentences: Iterable[QueuedSentence]) -> list[QueuedSentence]:
        """Take out sentences, whoever's turn it is.

        Args:
            sentences: Those that are not in the queue are passed over.

        Returns:
            What was taken out.
        """
        removed = []
        for queued in sentences:
            flow = self._flows.get(queued.request.caller)
            if flow and queued in flow.sentences:
                self._remove(flow, queued)
                removed.append(queued)
        return removed

    def take(self, sweep: Sweep, *, sentences: int, source_tokens: int) -> list[QueuedSentence]:
        """Take out those whose turn it is.

        Args:
            sweep: Of the taker; goes on.
            sentences: Most of them.
            source_tokens: Most of their source tokens, unless the first has more.

        Returns:
            At least one, if there is any.
        """
        taken: list[QueuedSentence] = []
        tokens = 0
        while self._flows and len(taken) < sentences:
            flow, queued = self._next(sweep)
            tokens += queued.source_tokens
            if taken and tokens > source_tokens:
                break
            flow.deficit -= queued.cost
            sweep.move(queued.source_tokens)
            self._taken += 1
            self._remove(flow, queued)
            taken.append(queued)
        return taken

    def _next(self, sweep: Sweep) -> tuple[_Flow, QueuedSentence]:
        """Return the sentence that goes first of those whose callers can pay for them."""
        while True:
            first = ((flow, *flow.next(sweep, self._taken)) for flow in self._flows.values())
            payable = [(rank, flow, queued) for flow, rank, queued in first if queued.cost <= flow.deficit]
            if payable:
                _, flow, queued = min(payable, key=itemgetter(0))
                return flow, queued
            for flow in self._flows.values():
                flow.deficit += _QUANTUM

    def _remove(self, flow: _Flow, queued: QueuedSentence) -> None:
        flow.remove(queued)
        self.count -= 1
        self.cost -= queued.cost
        if not flow.sentences:
            del self._flows[queued.request.caller]
