"""The state of the scheduler: the complete input of a decision, in one value.

Sentences of a batch wait for each other's steps, so a caller with many makes all steps long. While no caller asks for
more than its share, all sentences are in one batch of each worker, the *common* one: large batches are what makes a
server fast. While one does, all others have separate *light* batches, and most of the time.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from xuanzang.server.engine.scheduling.budget import Budget
from xuanzang.server.engine.scheduling.forecast import Forecast, JoiningCost
from xuanzang.server.engine.scheduling.queue import FairQueue
from xuanzang.server.engine.scheduling.request import QueuedSentence, Request
from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.engine.types import CallerId

COMMON, LIGHT = 0, 1
TIERS = (COMMON, LIGHT)
"""Numbers of the tiers, whose sentences are decoded in batches of their own."""
_LIGHT_WEIGHT = 8.0
# A caller takes more than its share if it asks for this multiple of the places of the caller with the fewest, and
# for this number of places of each worker: fewer make no step long.
_MAX_TIMES = 4
_MAX_PLACES = 4
# After a sentence that joined a light batch others are expected for so long, which must not wait for long steps.
_EXPECTED_SECONDS = 1.0


class Demand:
    """Places that some callers ask for, and who asks for more than its share of them."""

    def __init__(self, least: int) -> None:
        """Begin with nothing; no caller takes too much with at most `least` places."""
        self.places: dict[str, int] = {}
        self.is_exceeded = False
        """True if somebody asks for more than its share."""
        self._least = least
        # Callers per number of places, because the minimum and maximum are often needed.
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

    def may_exceed(self, key: str, places: int) -> bool:
        """Return whether somebody might ask for more than its share if one of them asked for more places."""
        after = self.places.get(key, 0) + places
        most = max(after, max(self._levels, default=0))
        return most > self._least and most > _MAX_TIMES * min(after, min(self._levels, default=after))

    def exceeds(self, key: str) -> bool:
        """Return whether one of them asks for more than its share."""
        places = self.places.get(key, 0)
        return places > self._least and places > _MAX_TIMES * min(self._levels)


class Callers:
    """Callers with requests that are not closed: the places that they ask for, and the tier that decodes them."""

    def __init__(self, *, workers: int) -> None:
        self.is_split = False
        """True if somebody takes more than its share, so that others have batches of their own."""
        self._least = _MAX_PLACES * workers
        self._shares = Demand(self._least)
        self._names: dict[str, Demand] = {}
        self._divided: set[str] = set()
        """Shares with a name that takes more than its part of them."""

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

    def tier_with(self, caller: CallerId, places: int) -> int:
        """Return the tier in which a caller would be decoded if it asked for more places."""
        if not self.is_split and not self._shares.may_exceed(caller.share, places):
            names = self._names.get(caller.share)
            if names is None or not names.may_exceed(caller.name, places):
                return COMMON
        self.add(caller, places)
        tier = self.tier_of(caller)
        self.add(caller, -places)
        return tier

    def may_have(self, share: str, tier: int) -> bool:
        """Return whether some of the callers of a share may be in a tier."""
        if not self.is_split or self._shares.exceeds(share):
            return tier == COMMON
        return tier == LIGHT or share in self._divided

    def tier_of(self, caller: CallerId) -> int:
        """Return the tier of a caller's next sentence."""
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
    time: float = 0.0
    """Seconds that its steps took, divided by its weight: the tier with the least has the next turn."""

    def add(self, queued: QueuedSentence, sign: int) -> None:
        """Count a sentence that joins, or leaves if the sign is -1."""
        share = queued.request.flow.caller.share
        self.places[share] += sign * queued.places
        if not self.places[share]:
            del self.places[share]
        self.rows += sign * queued.places
        self.tokens += sign * queued.cost


@dataclass(slots=True, kw_only=True)
class WorkerState:
    """A worker as the scheduler knows it."""

    sentences: set[QueuedSentence] = field(default_factory=set)
    """Sentences that have joined and not left."""
    tiers: tuple[TierState, TierState] = field(default_factory=lambda: (TierState(), TierState()))
    joining: JoiningCost = field(default_factory=JoiningCost)

    @property
    def running(self) -> set[int]:
        """Tiers that it has sentences of."""
        return {tier for tier in TIERS if self.tiers[tier].rows}

    def turn(self, active: set[int]) -> int:
        """Return whose turn it is among some tiers (start-time fair queueing, Goyal et al. 1996)."""
        return min(active, key=lambda tier: (self.tiers[tier].time, -tier), default=COMMON)

    def seconds(self, tier: int, light_weight: float) -> float:
        """Return the time of the other tier's turn."""
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

    def __init__(self, *, workers: int, settings: EngineSettings, max_cache_bytes: int) -> None:
        """Make the state of workers that have decoded nothing yet.

        Args:
            workers: Number of workers.
            settings: Limits on places, on joining sentences, and on the queue.
            max_cache_bytes: Bytes for keys and values, all workers together.
        """
        self.max_places, self.max_join_tokens = settings.max_batch_sentences, settings.max_join_source_tokens
        self.max_queue_tokens = settings.max_queue_tokens
        self.queue = FairQueue()
        self.callers = Callers(workers=workers)
        self.budget = Budget(max_bytes=max_cache_bytes)
        self.forecast = Forecast(workers=workers)
        self.workers = [WorkerState() for _ in range(workers)]
        self.light_until = -math.inf
        """Time until which sentences for light batches are expected."""

    def ask(self, request: Request, now: float) -> None:
        """Queue the sentences of a request, and count its places until it is settled."""
        self.callers.add(request.flow.caller, request.places)
        if self.callers.tier_of(request.flow.caller) == LIGHT:
            self.light_until = now + _EXPECTED_SECONDS
        self.queue.add(request.sentences)

    def settle(self, request: Request) -> list[QueuedSentence]:
        """Forget a request that is answered or given up; return the sentences that waited still."""
        self.callers.add(request.flow.caller, -request.places)
        return self.withdraw(request)

    def withdraw(self, request: Request) -> list[QueuedSentence]:
        """Take the sentences of a request out of the queue; return them."""
        self.budget.forget(request.sentences)
        return self.queue.remove(request.sentences)

    def join(self, worker: int, joins: Mapping[int, Sequence[QueuedSentence]]) -> None:
        """Let sentences that wait join the batches of some tiers."""
        for tier, sentences in joins.items():
            for queued in sentences:
                queued.tier = tier
                self.workers[worker].sentences.add(queued)
                self.workers[worker].tiers[tier].add(queued, 1)
                self.budget.take(worker, tier, queued)
            self.queue.remove(sentences, taken=True)

    def leave(self, worker: int, queued: QueuedSentence) -> None:
        """Take note that a sentence has left its batch."""
        self.workers[worker].sentences.remove(queued)
        self.workers[worker].tiers[queued.tier].add(queued, -1)
        self.budget.release(worker, queued)

    def rows(self, tier: int) -> int:
        """Return the places that the sentences of a tier take in all workers."""
        return sum([each.tiers[tier].rows for each in self.workers])

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
        return not self.queue.count and not any(map(attrgetter("sentences"), self.workers))

    @property
    def is_calm(self) -> bool:
        """True if no sentence waits, and batches hold at most one sentence per worker."""
        return not self.queue.count and sum(map(self.rows, TIERS)) <= len(self.workers)

    def tokens_in_batches(self, *tiers: int) -> float:
        """Return the predicted tokens that the sentences of tiers still need: on average, half of theirs."""
        return sum(each.tiers[tier].tokens for each in self.workers for tier in tiers) / 2
