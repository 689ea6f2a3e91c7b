"""A queue in which callers take turns, and which gives out sentences of similar lengths together."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from operator import itemgetter
from typing import Protocol

from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.call import FlowKey
from xuanzang.server.engine.scheduling.request import QueuedSentence
from xuanzang.server.engine.types import CallerId

# Share of a caller per round, in predicted tokens: a few sentences of usual length at a usual beam size.
_QUANTUM = 256
# A sentence waits for at most this many times the sentences for which it would wait if the oldest always went first.
_PATIENCE = 2
# Ranks of sentences, in ascending order.
_LATE, _DUE, _AHEAD, _BEHIND = range(4)


class Gate(Protocol):
    """Rule for how many and which sentences may be taken now."""

    def is_open(self, key: FlowKey) -> bool:
        """Return whether the sentences of a flow may be tried."""

    def admits(self, queued: QueuedSentence) -> bool:
        """Return whether a sentence is taken; otherwise the gate closes for it and those that wait for the same."""


@dataclass(slots=True, kw_only=True)
class Sweep:
    """Position of a worker on its way through the lengths: up to the longest waiting sentence, and down again.

    A batch costs as much as its longest sentence does, so it should hold sentences of similar lengths; the elevator
    algorithm (SCAN, as disks are read) reaches all of them.
    """

    length: int = 0
    """Source tokens of the last sentence taken."""
    upward: bool = True

    def move(self, length: int) -> None:
        """Move to a length; the direction follows."""
        if length != self.length:
            self.upward = length > self.length
        self.length = length


def dealt(costs: Sequence[int], workers: int) -> list[int]:
    """Return which of some sentences the first of several workers gets that begin together, so that they end together.

    The longest goes first, each to the worker that has the least to do (Graham 1969, "Bounds on multiprocessing
    timing anomalies"); none gets more of them than an equal share.
    """
    share, loads = -(-len(costs) // workers), [(0, worker) for worker in range(workers)]
    taken: list[list[int]] = [[] for _ in loads]
    for index in sorted(range(len(costs)), key=lambda index: -costs[index]):
        load, worker = heapq.heappop(loads)
        taken[worker].append(index)
        if len(taken[worker]) < share:
            heapq.heappush(loads, (load + costs[index], worker))
    return taken[0]


class _Flow:
    """The waiting sentences of one caller, for one model with limits of its own or for all others."""

    def __init__(self) -> None:
        # Oldest first, each with its number, and the number of taken sentences at which it is due.
        self.sentences: dict[QueuedSentence, tuple[int, int]] = {}
        # Source tokens, number and sentence, in this order.
        self.by_length: list[tuple[int, int, QueuedSentence]] = []
        # Time at which it goes first, number and sentence, of sentences with a deadline.
        self.by_time: list[tuple[float, int, QueuedSentence]] = []
        self.cost = 0
        # Of all sentences together, on the clock of `time.monotonic`.
        self.queued_at = 0.0
        self.deficit = _QUANTUM

    def add(self, queued: QueuedSentence, number: int, due: int) -> None:
        self.sentences[queued] = (number, due)
        key = (queued.source_tokens, number, queued)
        self.by_length.insert(bisect_left(self.by_length, key), key)
        if queued.goes_first_at < math.inf:
            insort(self.by_time, (queued.goes_first_at, number, queued))
        self.cost += queued.cost
        self.queued_at += queued.queued_at

    def remove(self, queued: QueuedSentence) -> None:
        number, _ = self.sentences.pop(queued)
        del self.by_length[bisect_left(self.by_length, (queued.source_tokens, number))]
        if queued.goes_first_at < math.inf:
            del self.by_time[bisect_left(self.by_time, (queued.goes_first_at, number))]
        self.cost -= queued.cost
        self.queued_at -= queued.queued_at

    def waited(self, now: float) -> float:
        """Return the seconds that its sentences have waited together; infinite if one of them goes first."""
        if self._is_late(now):
            return math.inf
        return len(self.sentences) * now - self.queued_at

    def is_pressing(self, taken: int, now: float) -> bool:
        """Return whether one of its sentences is late or due."""
        oldest_due = next(iter(self.sentences.values()))[1]
        return taken >= oldest_due or self._is_late(now)

    def _is_late(self, now: float) -> bool:
        return bool(self.by_time) and self.by_time[0][0] <= now

    def next(self, sweep: Sweep, taken: int, now: float) -> tuple[tuple[int, float], QueuedSentence]:
        """Return rank and sentence: a late one, else the oldest if it is due, else the nearest ahead, else behind."""
        if self._is_late(now):
            goes_first_at, _, queued = self.by_time[0]
            return (_LATE, goes_first_at), queued
        oldest, (_, due) = next(iter(self.sentences.items()))
        if taken >= due:
            return (_DUE, due), oldest
        # The first one that is longer than what lies behind on the way up, or ahead on the way down.
        longer = bisect_left(self.by_length, (sweep.length + (not sweep.upward),))
        is_behind = longer == (len(self.by_length) if sweep.upward else 0)
        found = longer if sweep.upward != is_behind else self._first_as_long(longer - 1)
        length, _, queued = self.by_length[found]
        return (_BEHIND if is_behind else _AHEAD, abs(length - sweep.length)), queued

    def _first_as_long(self, index: int) -> int:
        """Return the index of the oldest sentence that is as long as the one at an index."""
        return bisect_left(self.by_length, (self.by_length[index][0],))


class FairQueue:
    """Deficit round-robin over callers by predicted tokens (Shreedhar and Varghese 1995).

    A worker chooses among the sentences of all callers who have not had their share of the round: those that their
    deadlines make urgent first, then those of a length near the last one's. Not thread-safe: the scheduler holds its
    lock.
    """

    def __init__(self) -> None:
        # Those without waiting sentences have no entry.
        self._flows: dict[FlowKey, _Flow] = {}
        self._numbers = count()
        self._taken = 0
        self.count = 0
        self.cost = 0
        self.places: dict[CallerId, int] = {}
        """Places that the waiting sentences of each caller will take."""

    def backlog(self, key: FlowKey) -> int:
        """Return the predicted tokens of the waiting sentences of a flow."""
        flow = self._flows.get(key)
        return flow.cost if flow else 0

    def waited(self, callers: Collection[CallerId], now: float) -> tuple[float, int]:
        """Return for how long the sentences of some callers have waited, and how many they are.

        The seconds are those of all together, infinite if a deadline makes one go first.
        """
        flows = [flow for key, flow in self._flows.items() if key.caller in callers]
        return sum(flow.waited(now) for flow in flows), sum(len(flow.sentences) for flow in flows)

    def cost_for(self, limited: LoadedModel) -> int:
        """Return the predicted tokens that wait for a model with limits of its own."""
        return sum(flow.cost for key, flow in self._flows.items() if key.limited is limited)

    def cost_before(self, key: FlowKey, cost: int) -> int:
        """Return the predicted tokens that go before the last of a request that would be added now."""
        own = self.backlog(key)
        # While its own are taken, every other flow gets as many, if it has them.
        return own + sum(min(flow.cost, own + cost) for other, flow in self._flows.items() if other != key)

    def add(self, sentences: Sequence[QueuedSentence]) -> None:
        """Add sentences."""
        self.count += len(sentences)
        due = self._taken + _PATIENCE * self.count
        for queued in sentences:
            self.cost += queued.cost
            key = queued.request.flow
            self.places[key.caller] = self.places.get(key.caller, 0) + queued.places
            flow = self._flows.get(key)
            if flow is None:
                flow = self._flows[key] = _Flow()
            flow.add(queued, next(self._numbers), due)

    def remove(self, sentences: Iterable[QueuedSentence]) -> list[QueuedSentence]:
        """Remove sentences out of turn."""
        removed = []
        for queued in sentences:
            flow = self._flows.get(queued.request.flow)
            if flow and queued in flow.sentences:
                self._remove(flow, queued)
                removed.append(queued)
        return removed

    def take(self, sweep: Sweep, gate: Gate, *, max_source_tokens: int, now: float) -> list[QueuedSentence]:
        """Remove the sentences whose turn it is, at least one if the gate admits any; the sweep moves on.

        `max_source_tokens` are those of all, unless the first has more.
        """
        taken: list[QueuedSentence] = []
        tokens = 0
        while flows := [flow for key, flow in self._flows.items() if gate.is_open(key)]:
            flow, queued = self._next(flows, sweep, now)
            if taken and tokens + queued.source_tokens > max_source_tokens:
                break
            if not gate.admits(queued):
                continue
            tokens += queued.source_tokens
            sweep.move(queued.source_tokens)
            self._take(flow, queued)
            taken.append(queued)
            if not self.count:
                break
        return taken

    def deal(self, workers: int, gate: Gate, *, max_source_tokens: int, now: float) -> list[QueuedSentence]:
        """Remove the share of one of several workers that begin now: turns do not matter if nothing is left to wait.

        As in `take` the gate has to admit them, and `max_source_tokens` are those of all, unless the first has more.
        Memory may not suffice for all, so nothing is dealt while a sentence is late or due.
        """
        flows = [flow for key, flow in self._flows.items() if gate.is_open(key)]
        taken: list[QueuedSentence] = []
        if any(flow.is_pressing(self._taken, now) for flow in flows):
            return taken
        waiting = [queued for flow in flows for queued in flow.sentences]
        for index in dealt([queued.cost for queued in waiting], workers):
            queued = waiting[index]
            max_source_tokens -= queued.source_tokens
            if taken and max_source_tokens < 0:
                break
            if gate.is_open(queued.request.flow) and gate.admits(queued):
                self._take(self._flows[queued.request.flow], queued)
                taken.append(queued)
        return taken

    def _take(self, flow: _Flow, queued: QueuedSentence) -> None:
        flow.deficit -= queued.cost
        self._taken += 1
        self._remove(flow, queued)

    def _next(self, flows: Sequence[_Flow], sweep: Sweep, now: float) -> tuple[_Flow, QueuedSentence]:
        """Return the first of the sentences that their callers' shares suffice for."""
        while True:
            affordable = []
            for flow in flows:
                rank, queued = flow.next(sweep, self._taken, now)
                if queued.cost <= flow.deficit:
                    affordable.append((rank, flow, queued))
            if affordable:
                _, flow, queued = min(affordable, key=itemgetter(0))
                return flow, queued
            for flow in flows:
                flow.deficit += _QUANTUM

    def _remove(self, flow: _Flow, queued: QueuedSentence) -> None:
        flow.remove(queued)
        self.count -= 1
        self.cost -= queued.cost
        key = queued.request.flow
        self.places[key.caller] -= queued.places
        if not flow.sentences:
            del self._flows[key]
            if not self.places[key.caller]:
                del self.places[key.caller]
