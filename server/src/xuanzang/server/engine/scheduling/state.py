"""The state of the scheduler: all that a decision depends on, in one value.

Sentences of a batch wait for each other's steps, so a caller with many makes all steps long. As long as nobody asks for
more than its share, all sentences are in one batch of each worker, the *common* one: large batches are what makes a
server fast. While somebody does, all others have *light* batches beside it, and most of the time.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from xuanzang.server.engine.scheduling.budget import Budget
from xuanzang.server.engine.scheduling.forecast import Forecast, JoiningCost
from xuanzang.server.engine.scheduling.queue import FairQueue, Sweep
from xuanzang.server.engine.scheduling.request import QueuedSentence, Request
from xuanzang.server.engine.types import CallerId

COMMON, LIGHT = 0, 1
TIERS = (COMMON, LIGHT)
"""Numbers of the tiers, whose sentences are decoded in batches of their own."""
_LIGHT_WEIGHT = 8.0
# A caller takes more than its share if it asks for so many times the places of the caller who asks for the fewest, and
# for so many of each worker: fewer make no step long.
_MAX_TIMES = 4
_MAX_PLACES = 4
# After a sentence that joined a light batch others are expected for so long, which must not wait for long steps.
_EXPECTED_SECONDS = 1.0


class Demand:
    """Places that some callers ask for, and who asks for more than its share of them."""

    def __init__(self, least: int) -> None:
        """Begin with nothing; nobody takes too much with at most `least` places."""
        self.places: dict[str, int] = {}
        self.is_exceeded = False
        """True if somebody asks for more than its share."""
        self._least = least
        # How many ask for a number of places, for it is asked often who asks for the fewest and for the most.
        self._levels: dict[int, int] = {}

    def add(self, key: str, places: int) -> None:
        """Ask for more places, or for less than 0."""
        levels, before = self._levels, self.places.get(key, 0)
        after = before + places
        if before:
            levels[before] -= 1
            if not levels[before]:
                del levels[before]
        if after:
            levels[after] = levels.get(after, 0) + 1
            self.places[key] = after
        else:
            self.places.pop(key, None)
        most = max(levels, default=0)
        self.is_exceeded = most > self._least and most > _MAX_TIMES * min(levels)

    def exceeds(self, key: str) -> bool:
        """Return whether one of them asks for more than its share."""
        places = self.places.get(key, 0)
        return places > self._least and places > _MAX_TIMES * min(self._levels)


class Callers:
    """Callers with requests that are not closed: what they ask for, and in whose batches they are decoded."""

    def __init__(self, *, workers: int) -> None:
        self.is_split = False
        """True if somebody takes more than its share, so that others have batches of their own."""
        self._least = _MAX_PLACES * workers
        self._shares = Demand(self._least)
        self._names: dict[str, Demand] = {}
        # Shares one of whose names takes more than its part of them.
        self._divided: set[str] = set()

    def add(self, caller: CallerId, places: int) -> None:
        """Take note that a caller asks for places, or for less than 0 if it has them no longer."""
        share, name = caller
        self._shares.add(share, places)
        names = self._names.get(share)
        if names is None:
            names = self._names[share] = Demand(self._least)
        names.add(name, places)
        if names.is_exceeded:
            self._divided.add(share)
        else:
            self._divided.discard(share)
        if not names.places:
            del self._names[share]
        self.is_split = self._shares.is_exceeded or bool(self._divided)

    @property
    def light_weight(self) -> float:
        """Time of light batches for each second of common ones: no share has more than an equal part of it."""
        return max(_LIGHT_WEIGHT, float(len(self._shares.places)))

    def may_have(self, share: str, tier: int) -> bool:
        """Return whether some of the callers of a share may be in a tier."""
        if not self.is_split or self._shares.exceeds(share):
            return tier == COMMON
        return tier == LIGHT or share in self._divided

    def tier_of(self, caller: CallerId) -> int:
        """Return the tier in which the next sentence of a caller is decoded."""
        if not self.is_split or self._shares.exceeds(caller.share):
            return COMMON
        exceeds = caller.share in self._divided and self._names[caller.share].exceeds(caller.name)
        return COMMON if exceeds else LIGHT


@dataclass(slots=True, kw_only=True)
class TierState:
    """Sentences of one tier in one worker."""

    places: Counter[str] = field(default_factory=Counter)
    """Places by share."""
    rows: int = 0
    """Places of all."""
    tokens: int = 0
    """Predicted tokens of all."""
    sweep: Sweep = field(default_factory=Sweep)
    time: float = 0.0
    """Seconds that its steps took, divided by its weight: the tier with the least has the next turn."""


@dataclass(slots=True, kw_only=True)
class WorkerState:
    """A worker as the scheduler knows it."""

    sentences: set[QueuedSentence] = field(default_factory=set)
    """Sentences that have joined and not left."""
    tiers: tuple[TierState, TierState] = field(default_factory=lambda: (TierState(), TierState()))
    joining: JoiningCost = field(default_factory=JoiningCost)

    @property
    def running(self) -> list[int]:
        """Tiers of which it has sentences."""
        return [tier for tier in TIERS if self.tiers[tier].rows]

    def turn(self, active: set[int]) -> int:
        """Return whose turn it is among some tiers (start-time fair queueing, Goyal et al. 1996)."""
        return min(active, key=lambda tier: (self.tiers[tier].time, -tier), default=COMMON)

    def seconds(self, tier: int, light_weight: float) -> float:
        """Return the time after which it is the other tier's turn."""
        return (self.tiers[1 - tier].time - self.tiers[tier].time) * (light_weight if tier == LIGHT else 1.0)

    def charge(self, tier: int, seconds: float, light_weight: float) -> None:
        """Count time that was spent on a tier; one without sentences gains no claim to it."""
        spent, other = self.tiers[tier], self.tiers[1 - tier]
        start = spent.time
        spent.time += seconds / (light_weight if tier == LIGHT else 1.0)
        if not other.rows:
            # When it comes back it is behind the present step, so it goes first.
            other.time = max(other.time, start)


class State:
    """All that a decision depends on. Not thread-safe: the scheduler holds its lock."""

    def __init__(self, *, workers: int, max_places: int, max_join_tokens: int, max_cache_bytes: int) -> None:
        """Make the state of workers that have decoded nothing yet.

        Args:
            workers: Number of workers.
            max_places: Maximum places of one worker.
            max_join_tokens: Maximum source tokens of the sentences that join at once.
            max_cache_bytes: Bytes for keys and values, all workers together.
        """
        self.max_places, self.max_join_tokens = max_places, max_join_tokens
        self.queue = FairQueue()
        self.callers = Callers(workers=workers)
        self.budget = Budget(max_bytes=max_cache_bytes)
        self.forecast = Forecast(workers=workers)
        # Half of the workers begin with the shortest sentences, half with the longest.
        self.workers = [WorkerState() for _ in range(workers)]
        for each in self.workers[1::2]:
            for tier in each.tiers:
                tier.sweep = Sweep(upward=False)
        self.light_until = -math.inf
        """Time until which sentences for light batches are expected."""

    def ask(self, request: Request, now: float) -> None:
        """Count a request until it is closed."""
        self.callers.add(request.flow.caller, request.places)
        if self.callers.is_split and self.callers.tier_of(request.flow.caller) == LIGHT:
            self.light_until = now + _EXPECTED_SECONDS

    def settle(self, request: Request) -> None:
        """Forget a request that is answered or given up."""
        self.callers.add(request.flow.caller, -request.places)

    def join(self, worker: int, tier: int, joins: Sequence[QueuedSentence]) -> None:
        """Let sentences that wait join a batch."""
        each = self.workers[worker].tiers[tier]
        for queued in joins:
            queued.tier = tier
            self.workers[worker].sentences.add(queued)
            each.places[queued.request.flow.caller.share] += queued.places
            each.rows += queued.places
            each.tokens += queued.cost
            each.sweep = each.sweep.moved(queued.source_tokens)
            self.budget.reserve(worker, queued)
        self.queue.remove(joins, taken=True)

    def leave(self, worker: int, queued: QueuedSentence) -> None:
        """Take note that a sentence has left its batch."""
        self.workers[worker].sentences.remove(queued)
        each, share = self.workers[worker].tiers[queued.tier], queued.request.flow.caller.share
        each.places[share] -= queued.places
        if not each.places[share]:
            del each.places[share]
        each.rows -= queued.places
        each.tokens -= queued.cost
        self.budget.release(worker, queued)

    def waiting(self, tier: int) -> dict[str, int]:
        """Return the places that waiting sentences of a tier will take, by share; do not change it."""
        if not self.callers.is_split:
            return self.queue.places if tier == COMMON else {}
        waiting: dict[str, int] = {}
        for share, places in self.queue.places.items():
            if not self.callers.may_have(share, 1 - tier):
                waiting[share] = places
            elif self.callers.may_have(share, tier):
                names = self.queue.places_of(share).items()
                of_tier = [each for name, each in names if self.callers.tier_of(CallerId(share, name)) == tier]
                if of_tier:
                    waiting[share] = sum(of_tier)
        return waiting

    @property
    def is_idle(self) -> bool:
        """True if no sentence waits or is decoded."""
        return not self.queue.count and not any(each.running for each in self.workers)

    @property
    def is_calm(self) -> bool:
        """True if nobody waits, and there are no more sentences in batches than workers."""
        rows = sum(tier.rows for each in self.workers for tier in each.tiers)
        return not self.queue.count and rows <= len(self.workers)

    @property
    def held_tokens(self) -> float:
        """The predicted tokens that sentences in batches still need: on average, half of theirs."""
        return sum(tier.tokens for each in self.workers for tier in each.tiers) / 2

    def tier_with(self, caller: CallerId, places: int) -> int:
        """Return the tier in which a caller would be decoded if it asked for more places."""
        self.callers.add(caller, places)
        tier = self.callers.tier_of(caller)
        self.callers.add(caller, -places)
        return tier

    def rows_with(self, caller: CallerId, places: int) -> float:
        """Predict the places of the batch in which a caller would be decoded if it asked for more."""
        tier = self.tier_with(caller, places)
        rows = places + sum(self.waiting(tier).values()) + sum(each.tiers[tier].rows for each in self.workers)
        return min(max(rows / len(self.workers), 1.0), float(self.max_places))
