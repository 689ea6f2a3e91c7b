"""The queue: callers with requests, whose sentence is next, and who asks for more than its share.

Callers take turns by virtual token counters (Sheng et al. 2024, "Fairness in Serving Large Language Models", OSDI,
algorithm 2). Each share has a counter of the tokens that it was given, and so has each name within a share; the lowest
counter goes first. A newcomer starts at the lowest counter of the waiting ones, so it has no claim to the time before,
but never below its own, or callers who come back after each sentence would always pass one who waits. The sentences of
one caller go in the order of arrival.

Sentences of a batch wait for each other's steps, so a caller with many makes all steps long. While no caller asks for
more than its share, all sentences are in one batch of each worker, the *common* one: large batches are what makes a
server fast. While one does, all others have separate *light* batches, and most of the time.
"""

from __future__ import annotations

import heapq
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from operator import attrgetter
from typing import Generic, TypeVar

from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.request import FlowKey, QueuedSentence
from xuanzang.server.engine.types import CallerId

COMMON, LIGHT = 0, 1
TIERS = (COMMON, LIGHT)
"""Numbers of the tiers, whose sentences are decoded in batches of their own."""
# Light callers have at least the time of this number: a lone one beside many heavy ones would wait for long.
_MIN_LIGHT_CALLERS = 8.0
# A caller takes more than its share if it asks for this multiple of the places of the caller with the fewest, and
# for this number of places of each worker: fewer make no step long.
_MAX_TIMES = 4
_MAX_PLACES = 4
# Callers and shares without requests whose counters are kept, the last ones.
_KEPT_COUNTERS = 4096
# Maximum bits of a caller's predicted tokens.
_COST_BITS = 64
# More than the numbers of all sentences.
_BEFORE_ALL = 2**62


@dataclass(slots=True, eq=False)
class _Owner:
    """A share, or a name within one, while requests of it are open."""

    served: float = 0.0
    """Tokens that it was given."""
    places: int = 0
    """Places that its requests ask for."""
    waiting: int = 0
    """Those of its waiting sentences."""
    cost: int = 0
    """Predicted tokens that wait."""


@dataclass(slots=True, eq=False)
class _Name(_Owner):
    lines: dict[LoadedModel | None, dict[int, QueuedSentence]] = field(default_factory=dict)
    """Sentences by number, oldest first; a line for each model with limits, and one for all others."""


@dataclass(slots=True, eq=False, kw_only=True)
class _Share(_Owner):
    names: _Group[_Name]


_OwnerT = TypeVar("_OwnerT", bound=_Owner)


@dataclass(slots=True)
class _Level(Generic[_OwnerT]):
    """Owners that ask for the same number of places."""

    owners: dict[str, _OwnerT] = field(default_factory=dict)
    waiting: int = 0
    """Places of their waiting sentences."""


class _Group(Generic[_OwnerT]):
    """Owners that divide something equally: shares the server, names their share.

    Changes take a time that grows with the different numbers of places, not with the owners.
    """

    def __init__(self, unnoticed: int) -> None:
        """Begin without owners; none takes too much with a number of `unnoticed` places."""
        self.owners: dict[str, _OwnerT] = {}
        self.waiting: dict[str, _OwnerT] = {}
        """Owners with waiting sentences."""
        self.limit = self._unnoticed = unnoticed
        """Places that an owner may ask for."""
        self.heavy = 0
        """Number of owners that ask for more."""
        self._levels: dict[int, _Level[_OwnerT]] = {}
        # Waiting owners and their predicted tokens, by the number of bits of an owner's tokens.
        self._counts, self._costs = [0] * _COST_BITS, [0] * _COST_BITS

    def change(self, key: str, owner: _OwnerT, places: int) -> None:
        """Count places that an owner asks for, or no longer does if less than 0; it goes with its last one."""
        levels = self._levels
        if level := levels.get(owner.places):
            del level.owners[key]
            level.waiting -= owner.waiting
            if not level.owners:
                del levels[owner.places]
        owner.places += places
        if owner.places:
            level = levels.get(owner.places) or levels.setdefault(owner.places, _Level())
            level.owners[key] = self.owners[key] = owner
            level.waiting += owner.waiting
        else:
            del self.owners[key]
        self.limit = max(self._unnoticed, _MAX_TIMES * min(levels, default=0))
        is_any = max(levels, default=0) > self.limit
        self.heavy = sum([len(level.owners) for level in self._heavy_levels()]) if is_any else 0

    def wait(self, key: str, cost: int, places: int) -> None:
        """Count a sentence of an owner that begins to wait, or waits no longer if the numbers are less than 0."""
        owner = self.owners[key]
        if not owner.cost:
            owner.served = max(min(map(attrgetter("served"), self.waiting.values()), default=0.0), owner.served)
            self.waiting[key] = owner
        for tokens, sign in ((owner.cost, -1), (owner.cost + cost, 1)):
            bits = tokens.bit_length()
            self._counts[bits] += sign
            self._costs[bits] += sign * tokens
        owner.cost += cost
        owner.waiting += places
        self._levels[owner.places].waiting += places
        if not owner.cost:
            del self.waiting[key]

    def cost_before(self, bound: int) -> int:
        """Return the predicted tokens that wait, of each owner at most `bound`.

        They are up to half more if several owners have about as many, so that the time does not grow with the owners.
        """
        bits = bound.bit_length()
        near = min(self._costs[bits], bound * self._counts[bits])
        return sum(self._costs[:bits]) + near + bound * sum(self._counts[bits + 1 :])

    def exceeds(self, key: str) -> bool:
        """Return whether an owner asks for more than its part."""
        owner = self.owners.get(key)
        return owner is not None and owner.places > self.limit

    def heavy_waiting(self) -> int:
        """Return the places of waiting sentences whose owners ask for more than their part."""
        return sum([level.waiting for level in self._heavy_levels()])

    def of_tier(self, tier: int) -> dict[str, _OwnerT]:
        """Return the waiting owners that ask for more than their part, or the light ones."""
        if tier == COMMON:
            levels = self._heavy_levels()
            return {key: owner for level in levels for key, owner in level.owners.items() if owner.cost}
        if not self.heavy:
            return self.waiting
        return {key: owner for key, owner in self.waiting.items() if owner.places <= self.limit}

    def _heavy_levels(self) -> list[_Level[_OwnerT]]:
        return [level for places, level in self._levels.items() if places > self.limit]


class FairQueue:
    """The waiting sentences of all callers. Not thread-safe: the scheduler holds its lock."""

    def __init__(self, *, workers: int) -> None:
        self.count = self.cost = self.places = 0
        """Waiting sentences, their predicted tokens, and the places that they will take."""
        self.limited: Counter[LoadedModel] = Counter()
        """Predicted tokens that wait for each model with limits."""
        self.is_split = False
        """True if somebody takes more than its share, so that others have batches of their own."""
        self.light_weight = _MIN_LIGHT_CALLERS
        """Time of light batches for each second of common ones, once callers are split."""
        self._unnoticed = _MAX_PLACES * workers
        self._shares: _Group[_Share] = _Group(self._unnoticed)
        self._divided: dict[str, _Share] = {}
        """Shares where a name takes more than its part."""
        self._left: OrderedDict[str | CallerId, float] = OrderedDict()
        """Counters of shares and callers without requests."""
        self._added = 0
        self._submitted_at = 0.0
        """Sum over all sentences."""

    def open(self, caller: CallerId, places: int) -> None:
        """Count the places that a request of a caller asks for; its sentences may wait until it is closed."""
        self._change(caller, places)

    def close(self, caller: CallerId, places: int) -> None:
        """Count the places of a request no longer; none of its sentences may wait."""
        self._change(caller, -places)

    def _change(self, caller: CallerId, places: int) -> None:
        share = self._shares.owners.get(caller.share)
        if share is None:
            share = _Share(self._left.pop(caller.share, 0.0), names=_Group(self._unnoticed))
        name = share.names.owners.get(caller.name) or _Name(self._left.pop(caller, 0.0))
        share.names.change(caller.name, name, places)
        self._shares.change(caller.share, share, places)
        for key, owner in ((caller.share, share), (caller, name)):
            # A caller that was given nothing, such as a refused one, pushes out no other.
            if owner.served and not owner.places:
                self._left[key] = owner.served
                if len(self._left) > _KEPT_COUNTERS:
                    self._left.popitem(last=False)
        if share.names.heavy:
            self._divided[caller.share] = share
        else:
            self._divided.pop(caller.share, None)
        self.is_split = bool(self._shares.heavy or self._divided)
        if self.is_split:
            self._weigh()

    def _weigh(self) -> None:
        """Give every caller the same part of the time: shares, or the names of one that some of them divide."""
        divided = self._light_divided()
        callers = len(self._shares.owners) + sum([len(share.names.owners) - 1 for share in divided.values()])
        heavy = self._shares.heavy + sum([share.names.heavy for share in divided.values()])
        self.light_weight = max(_MIN_LIGHT_CALLERS, callers - heavy) / heavy

    def _light_divided(self) -> dict[str, _Share]:
        return {key: share for key, share in self._divided.items() if share.places <= self._shares.limit}

    def tier_of(self, caller: CallerId) -> int:
        """Return the tier of a caller's next sentence."""
        if not self.is_split or self._shares.exceeds(caller.share):
            return COMMON
        share = self._divided.get(caller.share)
        return COMMON if share and share.names.exceeds(caller.name) else LIGHT

    def waiting(self, tier: int) -> int:
        """Return the places that waiting sentences of a tier will take."""
        if not self.is_split:
            return self.places if tier == COMMON else 0
        heavy = self._shares.heavy_waiting()
        heavy += sum([share.names.heavy_waiting() for share in self._light_divided().values()])
        return heavy if tier == COMMON else self.places - heavy

    def add(self, sentences: Sequence[QueuedSentence], *, first: bool = False) -> None:
        """Add sentences of one request, behind those of the same caller or `first`."""
        (share, name), limited = sentences[0].request.flow
        lines = self._shares.owners[share].names.owners[name].lines
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
            (share, name), limited = queued.request.flow
            of_share = self._shares.waiting.get(share)
            of_name = of_share and of_share.names.waiting.get(name)
            line = of_name and of_name.lines.get(limited)
            if of_name and line and line.get(queued.number) is queued:
                removed.append(queued)
                self._count(queued, -1)
                del line[queued.number]
                if not line:
                    del of_name.lines[limited]
        return removed

    def _count(self, queued: QueuedSentence, sign: int) -> None:
        (share, name), limited = queued.request.flow
        cost, places = sign * queued.cost, sign * queued.places
        self.count += sign
        self.cost += cost
        self.places += places
        self._submitted_at += sign * queued.request.submitted_at
        self._shares.owners[share].names.wait(name, cost, places)
        self._shares.wait(share, cost, places)
        if limited:
            self.limited[limited] += cost
            if not self.limited[limited]:
                del self.limited[limited]

    def charge(self, caller: CallerId, tokens: int) -> None:
        """Add to the counters of a caller: the prediction is charged at the start, and corrected at the end."""
        share = self._shares.owners.get(caller.share)
        name = share and share.names.owners.get(caller.name)
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
        return self._shares.owners[share].cost if share in self._shares.owners else 0

    def cost_before(self, caller: CallerId, cost: int) -> int:
        """Return the predicted tokens that go before the last of a request that would be added now.

        While its own are taken, every other name of its share gets as many, if it has them, and so does every other
        share.
        """
        if not self.count:
            return 0
        share, before, counted = self._shares.owners.get(caller.share), 0, 0
        if share:
            name = share.names.owners.get(caller.name)
            before = share.names.cost_before(cost + (name.cost if name else 0))
            counted = min(share.cost, before + cost)
        return before + self._shares.cost_before(before + cost) - counted

    def in_turn(self, tier: int, may_take: Callable[[FlowKey], bool]) -> Iterator[QueuedSentence]:
        """Yield sentences of a tier in the order for a worker to take them; nothing is changed.

        `may_take`: whether the next sentence of a line may be taken, asked before each; once False, it stays so.
        """

        def of_name(_: str, name: _Name) -> Iterator[QueuedSentence]:
            lines = [takewhile(lambda each: may_take(each.request.flow), line.values()) for line in name.lines.values()]
            return lines[0] if len(lines) == 1 else heapq.merge(*lines, key=attrgetter("number"))

        def of_share(key: str, share: _Share) -> Iterator[QueuedSentence]:
            is_whole = not self.is_split or self._shares.exceeds(key)
            return _by_counter(share.names.waiting if is_whole else share.names.of_tier(tier), of_name)

        if self.is_split:
            shares = self._shares.of_tier(tier)
            if tier == COMMON:
                shares = shares | {key: share for key, share in self._divided.items() if share.cost}
        else:
            shares = self._shares.waiting if tier == COMMON else {}
        return _by_counter(shares, of_share)


def _by_counter(
    owners: Mapping[str, _OwnerT], sentences_of: Callable[[str, _OwnerT], Iterator[QueuedSentence]]
) -> Iterator[QueuedSentence]:
    """Yield the sentences of some owners in turn: always of the one whose counter would be the lowest."""
    order = [(each.served, key) for key, each in owners.items()]
    heapq.heapify(order)
    sentences: dict[str, Iterator[QueuedSentence]] = {}
    while order:
        served, key = order[0]
        if key not in sentences:
            sentences[key] = sentences_of(key, owners[key])
        if (queued := next(sentences[key], None)) is None:
            heapq.heappop(order)
        else:
            yield queued
            heapq.heapreplace(order, (served + queued.cost, key))
