"""The queue: whose sentence is next.

Callers take turns by virtual token counters (Sheng et al. 2024, "Fairness in Serving Large Language Models", OSDI,
algorithm 2). Each share has a counter of the tokens that it was given, and so has each name within a share; the least
counter goes first. A share that comes back takes over the least counter of waiting shares, so it has no claim to the
time of before. The sentences of one caller go in order of arrival, but late ones go first.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left, insort
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, takewhile
from operator import attrgetter
from typing import TypeVar

from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.request import FlowKey, QueuedSentence
from xuanzang.server.engine.types import CallerId

# Counters of shares without waiting sentences that are kept.
_KEPT_SHARES = 1024


@dataclass(slots=True)
class _Line:
    """Sentences that wait one behind the other."""

    sentences: dict[int, QueuedSentence] = field(default_factory=dict)
    """By number, oldest first."""
    by_time: list[tuple[float, int]] = field(default_factory=list)
    """Due time and number of those with a deadline, in this order."""

    def add(self, queued: QueuedSentence) -> None:
        self.sentences[queued.number] = queued
        if queued.due_at < math.inf:
            insort(self.by_time, (queued.due_at, queued.number))

    def remove(self, queued: QueuedSentence) -> None:
        del self.sentences[queued.number]
        if queued.due_at < math.inf:
            del self.by_time[bisect_left(self.by_time, (queued.due_at, queued.number))]

    def in_turn(self, now: float) -> Iterator[QueuedSentence]:
        late = [number for _, number in self.by_time[: bisect_left(self.by_time, (now, math.inf))]]
        yield from (self.sentences[number] for number in late)
        yield from (queued for queued in self.sentences.values() if queued.due_at > now)


@dataclass(slots=True)
class _Name:
    served: float
    cost: int = 0
    places: int = 0
    lines: dict[LoadedModel | None, _Line] = field(default_factory=dict)
    """One for each model with limits, and one for all others."""


@dataclass(slots=True)
class _Share:
    served: float
    cost: int = 0
    names: dict[str, _Name] = field(default_factory=dict)


_Served = TypeVar("_Served", _Share, _Name)


class FairQueue:
    """The waiting sentences of all callers. Not thread-safe: the scheduler holds its lock."""

    def __init__(self) -> None:
        self._shares: dict[str, _Share] = {}
        """Shares with waiting sentences."""
        self._kept: OrderedDict[str, float] = OrderedDict()
        """Counters of others, for when they come back."""
        self._limited: Counter[LoadedModel] = Counter()
        self._numbers = count()
        self._queued_at = 0.0
        self.count = self.cost = 0
        self.places: dict[str, int] = {}
        """Places that the waiting sentences of each share will take."""

    def add(self, sentences: Sequence[QueuedSentence]) -> None:
        """Add sentences of one request."""
        (owner, of_owner), limited = sentences[0].request.flow
        if owner not in self._shares:
            least = min((each.served for each in self._shares.values()), default=0.0)
            self._shares[owner] = _Share(max(self._kept.pop(owner, 0.0), least))
        share = self._shares[owner]
        if of_owner not in share.names:
            share.names[of_owner] = _Name(min((each.served for each in share.names.values()), default=0.0))
        name = share.names[of_owner]
        line = name.lines.setdefault(limited, _Line())
        for queued in sentences:
            queued.number = next(self._numbers)
            line.add(queued)
            self._count(share, name, queued, 1)

    def remove(self, sentences: Iterable[QueuedSentence], *, taken: bool = False) -> list[QueuedSentence]:
        """Remove those of some sentences that wait; charge their callers for those `taken` by a worker."""
        return [queued for queued in sentences if self._remove(queued, taken=taken)]

    def _remove(self, queued: QueuedSentence, *, taken: bool) -> bool:
        (owner, of_owner), limited = queued.request.flow
        share = self._shares.get(owner)
        name = share and share.names.get(of_owner)
        line = name and name.lines.get(limited)
        if not (share and name and line and line.sentences.get(queued.number) is queued):
            return False
        line.remove(queued)
        self._count(share, name, queued, -1)
        if taken:
            self.charge(queued.request.flow.caller, queued.cost)
        if not line.sentences:
            del name.lines[limited]
        if not name.lines:
            del share.names[of_owner]
        if not share.names:
            del self._shares[owner], self.places[owner]
            self._kept[owner] = share.served
            if len(self._kept) > _KEPT_SHARES:
                self._kept.popitem(last=False)
        return True

    def _count(self, share: _Share, name: _Name, queued: QueuedSentence, sign: int) -> None:
        (owner, _), limited = queued.request.flow
        cost, places = sign * queued.cost, sign * queued.places
        self.count += sign
        self._queued_at += sign * queued.queued_at
        self.cost += cost
        share.cost += cost
        name.cost += cost
        name.places += places
        self.places[owner] = self.places.get(owner, 0) + places
        if limited is not None:
            self._limited[limited] += cost
            if not self._limited[limited]:
                del self._limited[limited]

    def charge(self, caller: CallerId, tokens: int) -> None:
        """Add to the counters of a caller: the prediction is charged at the start, and corrected at the end."""
        if share := self._shares.get(caller.share):
            share.served += tokens
            if name := share.names.get(caller.name):
                name.served += tokens
        elif caller.share in self._kept:
            self._kept[caller.share] += tokens

    def waited(self, now: float) -> float:
        """Return the seconds that all sentences have waited together."""
        return self.count * now - self._queued_at

    def backlog(self, share: str) -> int:
        """Return the predicted tokens of the waiting sentences of a share."""
        return self._shares[share].cost if share in self._shares else 0

    def limited_cost(self, model: LoadedModel) -> int:
        """Return the predicted tokens that wait for a model with limits."""
        return self._limited[model]

    @property
    def has_limited(self) -> bool:
        """True if sentences wait for a model with limits."""
        return bool(self._limited)

    def cost_before(self, caller: CallerId, cost: int) -> int:
        """Return the predicted tokens that go before the last of a request that would be added now.

        While its own are taken, every other name of its share gets as many, if it has them, and so does every other
        share.
        """
        names = self._shares[caller.share].names if caller.share in self._shares else {}
        before = names[caller.name].cost if caller.name in names else 0
        before += sum([min(each.cost, before + cost) for name, each in names.items() if name != caller.name])
        others = [each.cost for share, each in self._shares.items() if share != caller.share]
        return before + sum([min(each, before + cost) for each in others])

    def places_of(self, share: str) -> dict[str, int]:
        """Return the places that the waiting sentences of a share will take, by name."""
        names = self._shares[share].names if share in self._shares else {}
        return {name: each.places for name, each in names.items()}

    def in_turn(
        self, now: float, is_open: Callable[[str], bool], may_try: Callable[[FlowKey], bool]
    ) -> Iterator[QueuedSentence]:
        """Yield sentences in the order for a worker to take them; nothing is changed.

        Args:
            now: Time, on the clock of `time.monotonic`.
            is_open: Whether sentences of a share may be taken, asked once.
            may_try: Whether the next sentence of a line may be, asked before each; once False, it stays so.
        """

        def of_name(name: _Name) -> Iterator[QueuedSentence]:
            lines = [
                takewhile(lambda queued: may_try(queued.request.flow), line.in_turn(now))
                for line in name.lines.values()
            ]
            return lines[0] if len(lines) == 1 else heapq.merge(*lines, key=attrgetter("number"))

        def of_share(owner: str, share: _Share) -> Iterator[QueuedSentence]:
            if not is_open(owner):
                return iter(())
            return _by_counter(share.names, lambda _, name: of_name(name))

        return _by_counter(self._shares, of_share)


def _by_counter(
    callers: Mapping[str, _Served], sentences_of: Callable[[str, _Served], Iterator[QueuedSentence]]
) -> Iterator[QueuedSentence]:
    """Yield the sentences of callers in turn: always of the one whose counter would be the least."""
    order = [(each.served, caller) for caller, each in callers.items()]
    heapq.heapify(order)
    sentences: dict[str, Iterator[QueuedSentence]] = {}
    while order:
        served, caller = order[0]
        if caller not in sentences:
            sentences[caller] = sentences_of(caller, callers[caller])
        if (queued := next(sentences[caller], None)) is None:
            heapq.heappop(order)
        else:
            yield queued
            heapq.heapreplace(order, (served + queued.cost, caller))
