"""Shares of callers in the running batches, and who may take more.

Sentences that are decoded together wait for each other's steps: in one batch the thousand of one caller would slow down
the only one of another. So callers are told apart by how much they have asked for and not got yet. Those of each *tier*
have batches of their own, and each worker divides its time among the tiers. Within a tier, nobody keeps more than an
equal share of the places from a caller who has fewer.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from xuanzang.server.engine.scheduling.fair_queue import FairQueue
from xuanzang.server.engine.scheduling.request import QueuedSentence, Request
from xuanzang.server.engine.types import NO_CALLER, CallerId

# Share of a batch that is free before the next sentences join a worker that is never idle.
_GROUP_SHARE = 0.25
# A lone caller stays so long in the heaviest tier that it has been in.
_ALONE_SECONDS = 1.0
# After a caller of a lighter tier others are expected for so long: then steps of heavier ones are kept shorter, because
# a newcomer waits for the step in progress.
_EXPECTED_SECONDS = 1.0
_SHORT_SHARE = 0.5


class Tier(NamedTuple):
    """Callers who have asked for about as much as each other and not got it yet."""

    max_sentences: float
    """Sentences of one caller."""
    max_tokens: float
    """Predicted tokens of one caller."""
    weight: float
    """Share of a worker's time, relative to those of the other tiers that have sentences."""


TIERS = (Tier(1, 256, 8.0), Tier(4, 1024, 4.0), Tier(16, 4096, 2.0), Tier(math.inf, math.inf, 1.0))
"""Tiers by their numbers; the first one is of single sentences."""
LIGHT = 1
"""Number of the tier after that of single sentences."""


class Held(NamedTuple):
    """Share of a caller in the batches of one tier in one worker."""

    places: int
    tokens: int
    """Predicted tokens that are still to be worked on."""

    def plus(self, places: int, tokens: int) -> Held:
        """Return a share that is so much larger."""
        return Held(self.places + places, self.tokens + tokens)


NOTHING = Held(0, 0)


class Room(NamedTuple):
    """Room of a worker for the batches of one tier."""

    places: int
    """Places, all callers together."""
    callers: Mapping[CallerId, int]
    """Places of each caller; those who are not in it may take none."""


_NO_ROOM = Room(0, {})
# Sentences, predicted tokens and tier of a caller who has asked for nothing.
_NOT_ASKED = (0, 0, 0)


class Places:
    """Places of callers in the batches of all workers. Not thread-safe: the scheduler holds its lock."""

    def __init__(self, queue: FairQueue, *, workers: int, max_batch_sentences: int) -> None:
        self._queue = queue
        self._limit = max_batch_sentences
        self.reported: list[list[dict[CallerId, Held]]] = [[{} for _ in TIERS] for _ in range(workers)]
        """By worker and tier what each caller has, as the worker reported last; it may look at it without the lock."""
        # Sums, because each call looks at them.
        self.running = [[0] * len(TIERS) for _ in range(workers)]
        """By worker and tier, places that are taken."""
        self.tiers: list[frozenset[int]] = [frozenset() for _ in range(workers)]
        """Of each worker the tiers of which it has sentences; replaced when they change."""
        self.held = [NOTHING] * len(TIERS)
        """By tier, all workers together."""
        self.held_tokens = 0
        """Predicted tokens of all sentences that are decoded."""
        # Sentences and predicted tokens of requests that are not closed, and the tier of so many, by caller.
        self._asked: dict[CallerId, tuple[int, int, int]] = {}
        # Heaviest tier of late of a caller that was alone, who it was, and until when that counts.
        self._alone = (0, NO_CALLER, -math.inf)
        self.yields_until = [-math.inf] * len(TIERS)
        """By tier, until when callers of lighter ones are expected, who must not wait for long steps."""

    def ask(self, request: Request, now: float) -> None:
        """Count a request until it is closed."""
        self._add(request, 1)
        caller = request.flow.caller
        _, _, tier = self._asked[caller]
        heaviest, alone, until = self._alone
        if len(self._asked) > 1:
            self._alone = (0, NO_CALLER, -math.inf)
            heavier = len(TIERS) - tier - 1
            self.yields_until[tier + 1 :] = [now + _EXPECTED_SECONDS] * heavier
        elif caller != alone or tier >= heaviest or now > until:
            # Its next sentence joins the batch of this one, so it is in no tier of single ones.
            self._alone = (max(tier, LIGHT), caller, now + _ALONE_SECONDS)

    def settle(self, request: Request) -> None:
        """Forget a request that is answered or given up."""
        self._add(request, -1)

    def _add(self, request: Request, sign: int) -> None:
        caller = request.flow.caller
        sentences, tokens, _ = self._asked.pop(caller, _NOT_ASKED)
        if sentences := sentences + sign * request.sentence_count:
            tokens += sign * request.cost
            self._asked[caller] = sentences, tokens, _tier_of(sentences, tokens)

    def tier_of(self, caller: CallerId, *, sentences: int = 0, tokens: int = 0) -> int:
        """Return the tier in which the next sentence of a caller is decoded, if it asks for some more.

        A caller goes back to a lighter tier when the heavier one has none of its sentences, and a lone one after a
        while: if its sentences are now more and now fewer they are in one batch all the same.
        """
        asked, cost, tier = self._asked.get(caller, _NOT_ASKED)
        if sentences:
            tier = _tier_of(asked + sentences, cost + tokens)
        heaviest, alone, _ = self._alone
        if caller == alone:
            tier = max(tier, heaviest)
        for heavier in range(len(TIERS) - 1, tier, -1):
            for held in self.reported:
                if caller in held[heavier]:
                    return heavier
        return tier

    def take(self, worker: int, queued: QueuedSentence) -> None:
        """Count a sentence that a worker takes; the worker's next report replaces this."""
        tier, caller = queued.tier, queued.request.flow.caller
        before = self.reported[worker][tier].get(caller, NOTHING)
        self._hold(worker, tier, caller, before.plus(queued.places, queued.cost))

    def give_back(self, worker: int, queued: QueuedSentence) -> None:
        """Take back what was counted for a sentence that the worker does not get after all."""
        tier, caller = queued.tier, queued.request.flow.caller
        before = self.reported[worker][tier][caller]
        self._hold(worker, tier, caller, before.plus(-queued.places, -queued.cost))

    def report(self, worker: int, held: Sequence[Mapping[CallerId, Held]]) -> None:
        """Take over what a worker decodes, by tier and caller."""
        for tier, callers in enumerate(held):
            for caller in self.reported[worker][tier].keys() | callers.keys():
                self._hold(worker, tier, caller, callers.get(caller, NOTHING))

    def _hold(self, worker: int, tier: int, caller: CallerId, held: Held) -> None:
        callers = self.reported[worker][tier]
        before = callers.get(caller, NOTHING)
        self.running[worker][tier] += held.places - before.places
        if (tier in self.tiers[worker]) != (self.running[worker][tier] > 0):
            self.tiers[worker] ^= {tier}
        self.held[tier] = self.held[tier].plus(held.places - before.places, held.tokens - before.tokens)
        self.held_tokens += held.tokens - before.tokens
        if held.places:
            callers[caller] = held
        else:
            callers.pop(caller, None)

    @property
    def is_idle(self) -> bool:
        """True if no sentence of a caller waits or is decoded."""
        return not self._queue.count and not any(self.tiers)

    def beginning(self, worker: int) -> int:
        """Return how many workers have no sentences, if this one is among them; otherwise 0."""
        return 0 if self.tiers[worker] else sum([not tiers for tiers in self.tiers])

    @property
    def is_calm(self) -> bool:
        """True if nobody waits, and there are no more sentences in batches than workers."""
        return not self._queue.count and sum(each.places for each in self.held) <= len(self.running)

    def waiting(self) -> dict[int, dict[CallerId, int]]:
        """Return the places that waiting sentences will take, by tier and caller."""
        tiers: dict[int, dict[CallerId, int]] = {}
        for caller, places in self._queue.places.items():
            tiers.setdefault(self.tier_of(caller), {})[caller] = places
        return tiers

    def wanted(self, tier: int) -> int:
        """Return the places that waiting sentences of a tier will take."""
        return sum(self.waiting().get(tier, {}).values())

    def rows(self, tier: int, sentences: int) -> float:
        """Predict the sentences that so many more will be decoded with: those of lighter tiers take time from them."""
        waiting = 0
        if self._queue.count:
            waiting = sum(places for caller, places in self._queue.places.items() if self.tier_of(caller) <= tier)
        running = sum([each.places for each in self.held[: tier + 1]])
        return min(max((waiting + running + sentences) / len(self.running), 1.0), float(self._limit))

    def rows_of(self, worker: int, tier: int) -> int:
        """Return the places that are taken in the batches of a tier and of lighter ones."""
        return sum(self.running[worker][: tier + 1])

    def has_room(self, caller: CallerId, tier: int) -> bool:
        """Whether the next sentence of a caller is begun at once, if it is the only one of its tier that waits."""
        return any(caller in self.room(worker, tier, {caller: 1}).callers for worker in range(len(self.running)))

    def have_room(self, caller: CallerId, workers: Iterable[int]) -> list[int]:
        """Return those of some workers that may take sentences of the tier of a caller whose sentences wait."""
        for tier, waiting in self.waiting().items():
            if caller in waiting:
                return [worker for worker in workers if self.room(worker, tier, waiting).callers]
        return []

    def rooms(self, worker: int) -> dict[int, Room]:
        """Return the tiers of which a worker may take sentences, the lightest first, and how many."""
        rooms = {}
        for tier, waiting in sorted(self.waiting().items()):
            room = self.room(worker, tier, waiting)
            if room.callers:
                rooms[tier] = room
        return rooms

    def room(self, worker: int, tier: int, waiting: Mapping[CallerId, int]) -> Room:
        """Return how many places a worker may give to callers whose sentences wait.

        It takes its fair share of them, so that two idle cores split the work. Whoever has less than an equal share of
        the places goes first, and is not kept waiting by those who have more: what they have beyond their shares does
        not count, so that the batch grows for a while.
        """
        held, workers = self.reported[worker][tier], len(self.running)
        limit = self._limit
        if self.yields_until[tier] > time.monotonic():
            limit = max(1, int(limit * _SHORT_SHARE))
        here = self.running[worker][tier]
        total = self.held[tier].places + sum(waiting.values())
        room = min(-(-total // workers), limit) - here
        # While more wait than fit anywhere they join in groups, because each joining holds the others up.
        in_groups = total > limit * workers and here > 0
        has_room = room > 0 and not (in_groups and room < limit * _GROUP_SHARE)
        callers = held.keys() | waiting.keys()
        if len(callers) == 1:
            return Room(room, dict.fromkeys(waiting, room)) if has_room else _NO_ROOM
        share = max(1, limit // max(1, len(callers)))
        poor = {each: share - places for each in waiting if (places := held.get(each, NOTHING).places) < share}
        if has_room:
            return Room(room, poor or dict.fromkeys(waiting, room))
        counted = sum(min(each.places, share) for each in held.values())
        if counted == here or counted >= limit:
            return _NO_ROOM
        grown = {caller: min(places, self._own_room(worker, tier, caller, waiting)) for caller, places in poor.items()}
        return Room(limit - counted, {caller: places for caller, places in grown.items() if places > 0})

    def _own_room(self, worker: int, tier: int, caller: CallerId, waiting: Mapping[CallerId, int]) -> int:
        """Return how many places a worker may give to a caller before others have as many of its sentences."""
        places = [held[tier].get(caller, NOTHING).places for held in self.reported]
        return -(-(sum(places) + waiting[caller]) // len(places)) - places[worker]


def _tier_of(sentences: int, tokens: int) -> int:
    """Return the tier of callers who have asked for so much."""
    tier = 0
    while sentences > TIERS[tier].max_sentences or tokens > TIERS[tier].max_tokens:
        tier += 1
    return tier


class Turns:
    """Whose batches a worker steps next: start-time fair queueing of the tiers by their weights (Goyal et al. 1996).

    A tier that had nothing to do has no claim to the time of before, but goes before one that had more than its share.
    """

    def __init__(self) -> None:
        # Seconds that each tier had, by its weight.
        self._served = [0.0] * len(TIERS)
        self._now = 0.0
        self._active: set[int] = set()

    def begin(self, tiers: Collection[int]) -> int:
        """Return whose turn it is among all tiers with something to do, at least one."""
        for tier in set(tiers) - self._active:
            self._served[tier] = max(self._served[tier], self._now)
        self._active = set(tiers)
        return self.first(tiers)

    def first(self, tiers: Collection[int]) -> int:
        """Return which of some tiers goes first; of equals the lightest."""
        if len(tiers) == 1:
            return next(iter(tiers))
        return min(tiers, key=lambda tier: (self._served[tier], tier))

    def seconds(self, tier: int) -> float:
        """Return the time after which it is another tier's turn; infinite for a lone one."""
        if self._active == {tier}:
            return math.inf
        others = min((self._served[each] for each in self._active if each != tier), default=math.inf)
        return (others - self._served[tier]) * TIERS[tier].weight

    def charge(self, tier: int, seconds: float) -> None:
        """Count time that was spent on a tier."""
        self._now = max(self._now, self._served[tier])
        self._served[tier] += seconds / TIERS[tier].weight
