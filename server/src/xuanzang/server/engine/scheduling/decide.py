"""The one decision of the scheduler: what a worker does next. A function of the state, which it does not change.

A decision reads from top to bottom: whose turn it is, who may join, how many, which sentences, and for how long steps
follow each other before the next decision.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.call import FlowKey
from xuanzang.server.engine.scheduling.queue import dealt
from xuanzang.server.engine.scheduling.request import QueuedSentence, Request
from xuanzang.server.engine.scheduling.state import COMMON, LIGHT, State

# Share of a batch that is free before the next sentences join a worker that is never idle.
_GROUP_SHARE = 0.25
# While sentences of light callers are expected, steps of the common batch are kept shorter: so much of it is decoded,
# and so many times fewer tokens are encoded at once, because a newcomer waits for the step in progress.
_SHORT_SHARE = 0.5
_SHORT_JOINS = 4


Lack = tuple[QueuedSentence, LoadedModel | None]
"""A sentence that found too little memory, and the model whose memory it is; None for that of all."""


class Decision(NamedTuple):
    """What a worker does next."""

    joins: Mapping[int, Sequence[QueuedSentence]]
    """Sentences that join, by tier."""
    tier: int
    """Tier whose batches take the next steps."""
    max_seconds: float
    """Time after which no further step is begun."""
    hopeless: Sequence[QueuedSentence]
    """Sentences that cannot be done in time any more."""
    lacking: Sequence[Lack]


NOTHING = Decision({}, COMMON, math.inf, (), ())
"""No decision: the worker looks after its models, and asks again."""


def decide(state: State, worker: int, now: float) -> Decision:
    """Return what a worker does next.

    Args:
        state: State of the scheduler.
        worker: Number of the worker.
        now: Time, on the clock of `time.monotonic`.
    """
    here, queue = state.workers[worker], state.queue
    rooms = {
        tier: room
        for tier in ((LIGHT, COMMON) if queue.count else ())
        if (waiting := state.waiting(tier)) and (room := Room(state, worker, tier, waiting, now)).is_open
    }
    active, joins_at, joining = {*here.running}, math.inf, _Joining(state, worker, now)
    turn = here.turn(active | rooms.keys())
    for tier, room in rooms.items():
        # The sentences of light callers do not stop while others are encoded, unless it is these others' turn.
        if tier == COMMON and turn == LIGHT and LIGHT in active:
            continue
        # Each time that sentences join a batch, those in it stop for an encoder run, of which a part takes as long for
        # many as for one. Whoever waits until the costs are equal never loses more than twice what could be had by
        # knowing who comes when: the ski-rental problem (Karlin et al. 1988, "Competitive snoopy caching", section 1).
        costs = here.tiers[tier].rows * here.joining.seconds
        if costs and not queue.is_late(now) and (waited := queue.waited(now)) < costs:
            joins_at = min(joins_at, now + (costs - waited) / queue.count)
        elif joining.choose(tier, room):
            active.add(tier)
    turn = here.turn(active)
    seconds = min(here.seconds(turn, state.callers.light_weight) if len(active) > 1 else math.inf, joins_at - now)
    return Decision(joining.joins, turn, seconds, joining.hopeless, joining.trial.refused)


def has_room(state: State, worker: int, now: float) -> bool:
    """Return whether a sentence that waits might join a worker."""
    tiers = [(tier, waiting) for tier in (LIGHT, COMMON) if (waiting := state.waiting(tier))]
    return any(Room(state, worker, tier, waiting, now).is_open for tier, waiting in tiers)


class Room:
    """Places that the waiting sentences of one tier may take in a worker."""

    def __init__(self, state: State, worker: int, tier: int, waiting: Mapping[str, int], now: float) -> None:
        here, workers = state.workers[worker].tiers[tier], [each.tiers[tier] for each in state.workers]
        limit = state.max_places
        if tier == COMMON and state.light_until > now:
            limit = max(1, int(limit * _SHORT_SHARE))
        # Its fair share of what is there, so that two idle cores split the work.
        total = sum([each.rows for each in workers]) + sum(waiting.values())
        places = min(-(-total // len(workers)), limit) - here.rows
        # While more wait than fit anywhere they join in groups, because each joining holds the others up.
        if total > limit * len(workers) and here.rows and places < limit * _GROUP_SHARE:
            places = 0
        self.places = max(places, 0)
        self.limited_places = max(limit - here.rows, 0) if state.queue.has_limited else 0
        """Those for models that not all workers may decode: the others take no share of these."""
        callers = len(waiting) + sum([share not in waiting for share in here.places])
        self._share, self._held, self._waiting = max(1, limit // callers), here.places, waiting
        self._everywhere = [each.places for each in workers]
        # A caller may have an equal share of the places. What those with less may still take is kept for them, and they
        # are not kept waiting by those with more: what these have beyond their shares does not count, so that the batch
        # grows for a while.
        self._spare = self.places - self._kept_for_poor() if callers > 1 else self.places
        counted = sum([min(each, self._share) for each in here.places.values()])
        self._taken, self._taken_of = 0, Counter[str]()
        # Shares that are smaller than a group are free soon.
        grows = not self.places and counted < here.rows and self._share >= limit * _GROUP_SHARE
        self.grown = max(0, limit - counted) if grows else 0

    def _kept_for_poor(self) -> int:
        kept = 0
        for share, waiting in self._waiting.items():
            kept += min(waiting, max(0, self._share - self._held[share]))
            if kept >= self.places:
                return self.places
        return kept

    @property
    def is_open(self) -> bool:
        """True if a sentence might join."""
        return bool(self.places or self.grown or self.limited_places)

    @property
    def is_full(self) -> bool:
        """True if no further sentence may join."""
        return self._taken >= max(self.places or self.grown, self.limited_places)

    def take(self, queued: QueuedSentence) -> None:
        """Count a sentence that joins."""
        self._taken += queued.places
        self._taken_of[queued.request.flow.caller.share] += queued.places

    def has_place(self, key: FlowKey) -> bool:
        """Return whether the next sentence of a caller may join."""
        share, limited = key.caller.share, self.limited_places if key.limited is not None else 0
        places = self.places or self.grown
        if self._taken >= max(places, limited):
            return False
        held = self._held[share]
        own = max(0, self._share - held)
        if self.places or limited:
            return self._taken_of[share] < own + max(self._spare, limited)
        # No more than until other workers have as many of its sentences.
        everywhere = sum([each[share] for each in self._everywhere]) + self._waiting.get(share, 0)
        return self._taken_of[share] < min(own, -(-everywhere // len(self._everywhere)) - held)


class _Joining:
    """The sentences that join a worker."""

    def __init__(self, state: State, worker: int, now: float) -> None:
        self._state, self._worker, self._now = state, worker, now
        self.trial = state.budget.trial(worker)
        # An idle worker tries what it gets first, so that estimates made under load are renewed.
        self._tries = not state.workers[worker].running
        self._tried: Request | None = None
        self.joins_any = False
        """True if a sentence joins."""
        self.hopeless: list[QueuedSentence] = []
        self.joins: dict[int, list[QueuedSentence]] = {}

    def choose(self, tier: int, room: Room) -> bool:
        """Take sentences of a tier in turn, as long as there are places, memory and tokens to encode at once."""
        state, now, trial = self._state, self._now, self.trial
        tokens = state.max_join_tokens
        if tier == COMMON and state.light_until > now:
            tokens //= _SHORT_JOINS
        taken: list[QueuedSentence] = []
        for queued in self._in_turn(tier, room):
            if self._is_hopeless(queued):
                self.hopeless.append(queued)
            elif taken and queued.source_tokens > tokens:
                break
            elif trial.takes(queued, tier):
                if self._tries:
                    self._tries, self._tried = False, queued.request
                tokens -= queued.source_tokens
                self.joins_any = True
                room.take(queued)
                taken.append(queued)
            elif trial.is_closed:
                break
            if room.is_full:
                break
        if taken:
            self.joins[tier] = taken
        return bool(taken)

    def _is_hopeless(self, queued: QueuedSentence) -> bool:
        """Return whether a sentence cannot be done in time any more, and a part of it is of no use."""
        if self._tries or queued.request is self._tried:
            return False
        context = queued.request.context
        deadline = context.deadline if math.isinf(context.cutoff) else math.inf
        return self._state.forecast.is_hopeless(queued.target_tokens, deadline, self._now)

    def _in_turn(self, tier: int, room: Room) -> Iterator[QueuedSentence]:
        """Yield the sentences of a tier that room is left for: those that wait for memory, then all in turn."""
        state = self._state

        def is_open(share: str) -> bool:
            return state.callers.may_have(share, tier)

        def may_try(key: FlowKey) -> bool:
            if not room.has_place(key) or state.callers.tier_of(key.caller) != tier:
                return False
            return key.limited is None or state.budget.may_serve(self._worker, key.limited)

        first = [queued for queued in state.budget.lacking if may_try(queued.request.flow)]
        yield from first
        here = state.workers[self._worker]
        turns = state.queue.in_turn(here.tiers[tier].sweep, self._now, is_open, may_try)
        beginning = sum([not each.sentences for each in state.workers])
        if not here.sentences and beginning > 1 and state.queue.count <= beginning * room.places:
            # Turns do not matter if nothing is left to wait: workers that begin together should end together.
            waiting = [queued for queued in turns if queued not in first]
            share = dealt([queued.cost for queued in waiting], beginning)
            yield from (waiting[index] for index in share)
            turns = (queued for index, queued in enumerate(waiting) if not self.joins_any and index not in share)
        yield from (queued for queued in turns if queued not in first)
