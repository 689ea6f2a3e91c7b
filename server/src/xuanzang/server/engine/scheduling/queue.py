"""The queue: whose sentence is next.

Callers take turns by virtual token counters (Sheng et al. 2024, "Fairness in Serving Large Language Models", OSDI,
algorithm 2). Each share has a counter of the tokens that it was given, and so has each name within a share; the least
counter goes first. A share that comes back takes over the least counter of those that wait, so it has no claim to the
time of before. Among callers whose counters are nearly equal a worker takes the sentence of the nearest length, because
a batch costs as much as its longest sentence.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left, insort
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from operator import itemgetter

from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.call import FlowKey
from xuanzang.server.engine.scheduling.request import QueuedSentence
from xuanzang.server.engine.types import CallerId

# Counters that differ by less are equal: a few sentences of usual length at a usual beam size.
_QUANTUM = 256
# Callers among whose sentences a worker looks for one of its length.
_CHOICE = 8
# Sentences that may overtake one: at most so many times as many as waited when it came.
_PATIENCE = 2
# Counters of shares without waiting sentences that are kept.
_KEPT_SHARES = 1024
# Ranks of sentences, in ascending order.
_LATE, _DUE, _AHEAD, _BEHIND = range(4)


@dataclass(slots=True, kw_only=True)
class Sweep:
    """Position of a worker on its way through the lengths, up to the longest and down again (SCAN)."""

    length: int = 0
    """Source tokens of the last sentence taken."""
    upward: bool = True

    def moved(self, length: int) -> Sweep:
        """Return the position after a sentence of a length."""
        upward = length > self.length if length != self.length else self.upward
        return Sweep(length=length, upward=upward)


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


class _Line:
    """The waiting sentences of one caller, for one model with limits of its own or for all others."""

    def __init__(self, key: FlowKey) -> None:
        self.key = key
        # Oldest first, each with its number, and the number of taken sentences at which it is due.
        self.sentences: dict[QueuedSentence, tuple[int, int]] = {}
        # Source tokens, number and sentence, in this order.
        self.by_length: list[tuple[int, int, QueuedSentence]] = []
        # Time at which it goes first, number and sentence, of sentences with a deadline.
        self.by_time: list[tuple[float, int, QueuedSentence]] = []
        self.cost = self.places = 0

    def add(self, queued: QueuedSentence, due: int) -> None:
        self.sentences[queued] = (queued.number, due)
        insort(self.by_length, (queued.source_tokens, queued.number, queued))
        if queued.goes_first_at < math.inf:
            insort(self.by_time, (queued.goes_first_at, queued.number, queued))
        self.cost += queued.cost
        self.places += queued.places

    def remove(self, queued: QueuedSentence) -> None:
        del self.sentences[queued]
        del self.by_length[bisect_left(self.by_length, (queued.source_tokens, queued.number))]
        if queued.goes_first_at < math.inf:
            del self.by_time[bisect_left(self.by_time, (queued.goes_first_at, queued.number))]
        self.cost -= queued.cost
        self.places -= queued.places

    def next(
        self, sweep: Sweep, taken: int, now: float, skipped: set[QueuedSentence]
    ) -> tuple[tuple[int, float], QueuedSentence] | None:
        """Return rank and sentence: a late one, else the oldest if it is due, else the nearest ahead, else behind."""
        if len(self.sentences) == 1:
            # Of most callers one sentence waits.
            [(queued, (_, due))] = self.sentences.items()
            if queued.goes_first_at <= now:
                return (_LATE, queued.goes_first_at), queued
            distance = queued.source_tokens - sweep.length
            is_ahead = distance >= 0 if sweep.upward else distance <= 0
            rank = (_DUE, due) if taken >= due else (_AHEAD if is_ahead else _BEHIND, abs(distance))
            return rank, queued
        for goes_first_at, _, queued in self.by_time:
            if goes_first_at > now:
                break
            if queued not in skipped:
                return (_LATE, goes_first_at), queued
        oldest = next((each for each in self.sentences if each not in skipped), None)
        if oldest is None:
            return None
        if taken >= (due := self.sentences[oldest][1]):
            return (_DUE, due), oldest
        return self._nearest(sweep, skipped)

    def _nearest(self, sweep: Sweep, skipped: set[QueuedSentence]) -> tuple[tuple[int, float], QueuedSentence]:
        # The first one that is longer than what lies behind on the way up, or ahead on the way down.
        longer = bisect_left(self.by_length, (sweep.length + (not sweep.upward),))
        up, down = range(longer, len(self.by_length)), range(longer - 1, -1, -1)
        for rank, way in ((_AHEAD, up if sweep.upward else down), (_BEHIND, down if sweep.upward else up)):
            for index in way:
                length, _, queued = self.by_length[index]
                if queued not in skipped:
                    # The oldest one that is as long.
                    same = (self.by_length[at][2] for at in range(bisect_left(self.by_length, (length,)), index + 1))
                    oldest = next(each for each in same if each not in skipped)
                    return (rank, abs(length - sweep.length)), oldest
        raise LookupError("a line without sentences was asked for one")


@dataclass(slots=True)
class _Name:
    served: float
    lines: dict[LoadedModel | None, _Line] = field(default_factory=dict)


@dataclass(slots=True)
class _Share:
    served: float
    cost: int = 0
    names: dict[str, _Name] = field(default_factory=dict)


class FairQueue:
    """The waiting sentences of all callers. Not thread-safe: the scheduler holds its lock."""

    def __init__(self) -> None:
        # Those without waiting sentences have no entry; their counters are kept for when they come back.
        self._shares: dict[str, _Share] = {}
        self._kept: OrderedDict[str, float] = OrderedDict()
        # Counter and share, of all that wait.
        self._order: list[tuple[float, str]] = []
        # Time at which it goes first, and number, of all sentences with a deadline.
        self._by_time: list[tuple[float, int]] = []
        self._limited: dict[LoadedModel, int] = {}
        self._numbers = count()
        self._taken = 0
        self._queued_at = 0.0
        self.count = self.cost = 0
        self.places: dict[str, int] = {}
        """Places that the waiting sentences of each share will take."""

    def add(self, sentences: Sequence[QueuedSentence]) -> None:
        """Add sentences of one request."""
        key = sentences[0].request.flow
        line = self._line(key)
        share = self._shares[key.caller.share]
        self.count += len(sentences)
        due = self._taken + _PATIENCE * self.count
        for queued in sentences:
            queued.number = next(self._numbers)
            line.add(queued, due)
            self.cost += queued.cost
            share.cost += queued.cost
            self._queued_at += queued.queued_at
            self.places[key.caller.share] = self.places.get(key.caller.share, 0) + queued.places
            if key.limited is not None:
                self._limited[key.limited] = self._limited.get(key.limited, 0) + queued.cost
            if queued.goes_first_at < math.inf:
                insort(self._by_time, (queued.goes_first_at, queued.number))

    def _line(self, key: FlowKey) -> _Line:
        """Return the line of a caller; one who comes back takes over the least counter of those who wait."""
        owner, name = key.caller
        share = self._shares.get(owner)
        if share is None:
            least = self._order[0][0] if self._order else 0.0
            share = self._shares[owner] = _Share(max(self._kept.pop(owner, 0.0), least))
            insort(self._order, (share.served, owner))
        if name not in share.names:
            share.names[name] = _Name(min((each.served for each in share.names.values()), default=0.0))
        lines = share.names[name].lines
        if key.limited not in lines:
            lines[key.limited] = _Line(key)
        return lines[key.limited]

    def remove(self, sentences: Iterable[QueuedSentence], *, taken: bool = False) -> list[QueuedSentence]:
        """Remove those of some sentences that wait; charge their callers for those `taken` by a worker."""
        removed = []
        for queued in sentences:
            key = queued.request.flow
            share = self._shares.get(key.caller.share)
            name = share and share.names.get(key.caller.name)
            line = name and name.lines.get(key.limited)
            if share and name and line and queued in line.sentences:
                removed.append(queued)
                self._taken += taken
                if taken:
                    self._charge(share, name, key.caller, queued.cost)
                self._remove(share, name, line, queued)
        return removed

    def charge(self, caller: CallerId, tokens: int) -> None:
        """Correct the counters of a caller, whose sentences took more or fewer tokens than was predicted."""
        share = self._shares.get(caller.share)
        if share is None:
            if caller.share in self._kept:
                self._kept[caller.share] += tokens
        else:
            self._charge(share, share.names.get(caller.name), caller, tokens)

    def _charge(self, share: _Share, name: _Name | None, caller: CallerId, tokens: int) -> None:
        del self._order[bisect_left(self._order, (share.served, caller.share))]
        share.served += tokens
        insort(self._order, (share.served, caller.share))
        if name:
            name.served += tokens

    def _remove(self, share: _Share, name: _Name, line: _Line, queued: QueuedSentence) -> None:
        owner = line.key.caller.share
        line.remove(queued)
        self.count -= 1
        self.cost -= queued.cost
        self._queued_at -= queued.queued_at
        share.cost -= queued.cost
        self.places[owner] -= queued.places
        if line.key.limited is not None:
            self._limited[line.key.limited] -= queued.cost
            if not self._limited[line.key.limited]:
                del self._limited[line.key.limited]
        if queued.goes_first_at < math.inf:
            del self._by_time[bisect_left(self._by_time, (queued.goes_first_at, queued.number))]
        if line.sentences:
            return
        del name.lines[line.key.limited]
        if not name.lines and len(share.names) > 1:
            del share.names[line.key.caller.name]
        if not share.cost:
            del self._shares[owner], self.places[owner]
            del self._order[bisect_left(self._order, (share.served, owner))]
            self._kept[owner] = share.served
            if len(self._kept) > _KEPT_SHARES:
                self._kept.popitem(last=False)

    def is_late(self, now: float) -> bool:
        """Return whether a deadline makes a sentence go first."""
        return bool(self._by_time) and self._by_time[0][0] <= now

    def waited(self, now: float) -> float:
        """Return the seconds that all sentences have waited together."""
        return self.count * now - self._queued_at

    def backlog(self, share: str) -> int:
        """Return the predicted tokens of the waiting sentences of a share."""
        return self._shares[share].cost if share in self._shares else 0

    def limited_cost(self, model: LoadedModel) -> int:
        """Return the predicted tokens that wait for a model with limits of its own."""
        return self._limited.get(model, 0)

    def cost_before(self, caller: CallerId, cost: int) -> int:
        """Return the predicted tokens that go before the last of a request that would be added now."""
        share = self._shares.get(caller.share)
        before = 0
        if share is not None:
            costs = {name: sum(line.cost for line in each.lines.values()) for name, each in share.names.items()}
            before = costs.pop(caller.name, 0)
            # While its own are taken, every other name gets as many, if it has them, and so does every other share.
            before += sum(min(each, before + cost) for each in costs.values())
        others = (each.cost for owner, each in self._shares.items() if owner != caller.share)
        return before + sum(min(each, before + cost) for each in others)

    def places_of(self, share: str) -> dict[str, int]:
        """Return the places that the waiting sentences of a share will take, by name."""
        names = self._shares[share].names if share in self._shares else {}
        return {name: sum([line.places for line in each.lines.values()]) for name, each in names.items() if each.lines}

    @property
    def has_limited(self) -> bool:
        """True if sentences wait for a model with limits of its own."""
        return bool(self._limited)

    def in_turn(
        self, sweep: Sweep, now: float, is_open: Callable[[str], bool], may_try: Callable[[FlowKey], bool]
    ) -> Iterator[QueuedSentence]:
        """Yield sentences in the order in which a worker should take them; nothing is changed.

        Before each sentence `is_open` is asked whether those of a share may be taken now, and `may_try` the same of its
        lines.
        """
        turns = _Turns(self._shares, self._order)
        yielded: set[QueuedSentence] = set()
        taken = self._taken
        while True:
            lines = turns.first(is_open, may_try)
            ranked = [found for line in lines if (found := line.next(sweep, taken, now, yielded)) is not None]
            if not ranked:
                return
            _, queued = min(ranked, key=itemgetter(0))
            yield queued
            yielded.add(queued)
            turns.charge(queued)
            sweep, taken = sweep.moved(queued.source_tokens), taken + 1


class _Turns:
    """Counters of shares and names as they will be once the sentences of one look at the queue are taken."""

    def __init__(self, shares: Mapping[str, _Share], order: Sequence[tuple[float, str]]) -> None:
        self._shares = shares
        self._order = list(order)
        # Of the shares that have been looked at, their names by counters.
        self._names: dict[str, list[tuple[float, str]]] = {}
        self._left: Counter[FlowKey] = Counter()

    def first(self, is_open: Callable[[str], bool], may_try: Callable[[FlowKey], bool]) -> list[_Line]:
        """Return the lines of callers with nearly the least counters."""
        found: list[_Line] = []
        last = math.inf
        for served, owner in self._order:
            if served > last or len(found) >= _CHOICE:
                break
            if is_open(owner) and (lines := self._lines(owner, may_try, _CHOICE - len(found))):
                last = min(last, served + _QUANTUM)
                found += lines
        return found

    def _lines(self, owner: str, may_try: Callable[[FlowKey], bool], room: int) -> list[_Line]:
        """Return lines of the names of a share with nearly its least counter."""
        share = self._shares[owner]
        if owner not in self._names:
            self._names[owner] = sorted((each.served, name) for name, each in share.names.items())
        found: list[_Line] = []
        last = math.inf
        for served, name in self._names[owner]:
            if served > last or len(found) >= room:
                break
            lines = [line for line in share.names[name].lines.values() if self._has_left(line) and may_try(line.key)]
            if lines:
                last = min(last, served + _QUANTUM)
                found += lines
        return found

    def _has_left(self, line: _Line) -> bool:
        return len(line.sentences) > self._left[line.key]

    def charge(self, queued: QueuedSentence) -> None:
        """Count a sentence as taken."""
        key = queued.request.flow
        self._left[key] += 1
        owner, name = key.caller
        _raise_counter(self._order, owner, queued.cost)
        has_more = any(self._has_left(line) for line in self._shares[owner].names[name].lines.values())
        _raise_counter(self._names[owner], name, queued.cost if has_more else None)


def _raise_counter(order: list[tuple[float, str]], who: str, tokens: int | None) -> None:
    """Raise one of some counters that are in order; None takes it out."""
    index = next(index for index, (_, each) in enumerate(order) if each == who)
    served, _ = order.pop(index)
    if tokens is not None:
        insort(order, (served + tokens, who))
