"""The queue: whose sentence is next.

Callers take turns by virtual token counters (Sheng et al. 2024, "Fairness in Serving Large Language Models", OSDI,
algorithm 2). Each share has a counter of the tokens that it was given, and so has each name within a share; the lowest
counter goes first. A newcomer starts at the lowest counter of the waiting ones, so it has no claim to the time before,
but never below its own, or callers who come back after each sentence would always pass one who waits. The sentences of
one caller go in the order of arrival.
"""

from __future__ import annotations

import heapq
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from operator import attrgetter
from typing import TypeVar

from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.request import FlowKey, QueuedSentence
from xuanzang.server.engine.types import CallerId

# Callers and shares without waiting sentences whose counters are kept, the last ones.
_KEPT_COUNTERS = 4096
# Maximum bits of a caller's predicted tokens.
_COST_BITS = 64
# More than the numbers of all sentences.
_BEFORE_ALL = 2**62


class _Costs:
    """Costs of several owners by their number of bits, to add up in a time that does not grow with the owners."""

    def __init__(self) -> None:
        self._owners, self._sums = [0] * _COST_BITS, [0] * _COST_BITS

    def change(self, before: int, after: int) -> None:
        """Take note that an owner's cost has changed."""
        for cost, sign in ((before, -1), (after, 1)):
            bits = cost.bit_length()
            self._owners[bits] += sign
            self._sums[bits] += sign * cost

    def bounded(self, bound: int) -> int:
        """Return the sum of all costs, each at most `bound`; more, by half at most, if costs of as many bits differ."""
        bits = bound.bit_length()
        near = min(self._sums[bits], bound * self._owners[bits])
        return sum(self._sums[:bits]) + near + bound * sum(self._owners[bits + 1 :])


@dataclass(slots=True)
class _Name:
    served: float
    """Tokens that it was given."""
    cost: int = 0
    """Predicted tokens that wait."""
    lines: dict[LoadedModel | None, dict[int, QueuedSentence]] = field(default_factory=dict)
    """Sentences by number, oldest first; a line for each model with limits, and one for all others."""


@dataclass(slots=True)
class _Share:
    served: float
    cost: int = 0
    names: dict[str, _Name] = field(default_factory=dict)
    costs: _Costs = field(default_factory=_Costs)
    """Those of its names."""


_Owner = TypeVar("_Owner", _Share, _Name)


Members = Callable[..., Collection[str] | None]
"""Function that returns the shares, or the names of the given one, that may have sentences; None for all of them."""


class FairQueue:
    """The waiting sentences of all callers. Not thread-safe: the scheduler holds its lock."""

    def __init__(self, count_places: Callable[[CallerId, int], None] = lambda _caller, _places: None) -> None:
        """Begin without sentences; `count_places` is told of the places that a caller's sentences will take, or not."""
        self._count_places = count_places
        self._shares: dict[str, _Share] = {}
        """Shares with waiting sentences."""
        self._left: OrderedDict[str | CallerId, float] = OrderedDict()
        """Counters of shares and callers without."""
        self._added = 0
        self._submitted_at = 0.0
        """Sum over all sentences."""
        self.count = self.cost = 0
        self.places = 0
        """Places that all waiting sentences will take."""
        self._costs = _Costs()
        self.limited: Counter[LoadedModel] = Counter()
        """Predicted tokens that wait for each model with limits."""

    def add(self, sentences: Sequence[QueuedSentence], *, first: bool = False) -> None:
        """Add sentences of one request, behind those of the same caller or `first`."""
        (owner, of_owner), limited = sentences[0].request.flow
        if owner not in self._shares:
            self._shares[owner] = _Share(max(_lowest(self._shares.values()), self._left.pop(owner, 0.0)))
        share = self._shares[owner]
        if of_owner not in share.names:
            kept = self._left.pop(sentences[0].request.flow.caller, 0.0)
            share.names[of_owner] = _Name(max(_lowest(share.names.values()), kept))
        lines = share.names[of_owner].lines
        line = lines.setdefault(limited, {})
        for queued in sentences:
            self._added += 1
            queued.number = self._added - _BEFORE_ALL if first else self._added
            line[queued.number] = queued
            self._count(queued, 1)
        if first:
            lines[limited] = dict(sorted(line.items()))

    def remove(self, sentences: Iterable[QueuedSentence]) -> list[QueuedSentence]:
        """Remove those of some sentences that wait, and return them."""
        removed = []
        for queued in sentences:
            (owner, of_owner), limited = queued.request.flow
            share = self._shares.get(owner)
            name = share and share.names.get(of_owner)
            line = name and name.lines.get(limited)
            if share and name and line and line.get(queued.number) is queued:
                removed.append(queued)
                self._count(queued, -1)
                del line[queued.number]
                if not line:
                    del name.lines[limited]
                if not name.lines:
                    del share.names[of_owner]
                    self._keep(queued.request.flow.caller, name.served)
                if not share.names:
                    del self._shares[owner]
                    self._keep(owner, share.served)
        return removed

    def _keep(self, key: str | CallerId, served: float) -> None:
        self._left[key] = served
        if len(self._left) > _KEPT_COUNTERS:
            self._left.popitem(last=False)

    def _count(self, queued: QueuedSentence, sign: int) -> None:
        caller, limited = queued.request.flow
        cost, places, share = sign * queued.cost, sign * queued.places, self._shares[caller.share]
        name = share.names[caller.name]
        self.count += sign
        self._submitted_at += sign * queued.request.submitted_at
        self._costs.change(share.cost, share.cost + cost)
        share.costs.change(name.cost, name.cost + cost)
        self.places += places
        self._count_places(caller, places)
        for owner in (self, share, name):
            owner.cost += cost
        if limited:
            self.limited[limited] += cost
            if not self.limited[limited]:
                del self.limited[limited]

    def charge(self, caller: CallerId, tokens: int) -> None:
        """Add to the counters of a caller: the prediction is charged at the start, and corrected at the end."""
        share = self._shares.get(caller.share)
        name = share and share.names.get(caller.name)
        for key, owner in ((caller.share, share), (caller, name)):
            if owner:
                owner.served += tokens
            elif key in self._left:
                self._left[key] += tokens

    def waited(self, now: float) -> float:
        """Return the seconds that all sentences have waited together."""
        return self.count * now - self._submitted_at

    def backlog(self, share: str) -> int:
        """Return the predicted tokens of the waiting sentences of a share."""
        return self._shares[share].cost if share in self._shares else 0

    def cost_before(self, caller: CallerId, cost: int) -> int:
        """Return the predicted tokens that go before the last of a request that would be added now.

        While its own are taken, every other name of its share gets as many, if it has them, and so does every other
        share.
        """
        if not self.count:
            return 0
        share, before, counted = self._shares.get(caller.share), 0, 0
        if share:
            own = share.names[caller.name].cost if caller.name in share.names else 0
            before = share.costs.bounded(own + cost)
            counted = min(share.cost, before + cost)
        return before + self._costs.bounded(before + cost) - counted

    def in_turn(
        self, may_take: Callable[[FlowKey], bool], members: Members = lambda _=None: None
    ) -> Iterator[QueuedSentence]:
        """Yield sentences in the order for a worker to take them; nothing is changed.

        Args:
            may_take: Whether the next sentence of a line may be taken, asked before each; once False, it stays so.
            members: The shares, and the names of one, that may have such sentences.
        """

        def of_name(name: _Name) -> Iterator[QueuedSentence]:
            lines = [takewhile(lambda each: may_take(each.request.flow), line.values()) for line in name.lines.values()]
            return lines[0] if len(lines) == 1 else heapq.merge(*lines, key=attrgetter("number"))

        def of_share(key: str, share: _Share) -> Iterator[QueuedSentence]:
            return _by_counter(share.names, lambda _, name: of_name(name), members(key))

        return _by_counter(self._shares, of_share, members())


def _lowest(owners: Iterable[_Owner]) -> float:
    """Return the lowest counter of those who wait, 0 without any."""
    return min(map(attrgetter("served"), owners), default=0.0)


def _by_counter(
    owners: Mapping[str, _Owner],
    sentences_of: Callable[[str, _Owner], Iterator[QueuedSentence]],
    members: Collection[str] | None,
) -> Iterator[QueuedSentence]:
    """Yield the sentences of some callers in turn: always of the one whose counter would be the lowest."""
    if members is not None:
        owners = {owner: owners[owner] for owner in members if owner in owners}
    order = [(each.served, owner) for owner, each in owners.items()]
    heapq.heapify(order)
    sentences: dict[str, Iterator[QueuedSentence]] = {}
    while order:
        served, owner = order[0]
        if owner not in sentences:
            sentences[owner] = sentences_of(owner, owners[owner])
        if (queued := next(sentences[owner], None)) is None:
            heapq.heappop(order)
        else:
            yield queued
            heapq.heapreplace(order, (served + queued.cost, owner))
