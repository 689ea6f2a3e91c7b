"""The decisions of the scheduler: what a worker does next, and whether a request is let in.

Both are functions of the state, which they do not change. What a worker does next reads from top to bottom: whose turn
it is, who may join, how many, which sentences, and for how long steps follow each other before the next decision.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from xuanzang.server.engine.errors import ModelOverloadedError, OverloadedError
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.request import FlowKey, QueuedSentence
from xuanzang.server.engine.scheduling.state import COMMON, LIGHT, TIERS, State

# Share of a batch that is free before the next sentences join a worker that is never idle.
_GROUP_SHARE = 0.25
# While sentences of light callers are expected, steps of the common batch are shorter: this share of it is decoded,
# and fewer tokens are encoded at once, by this factor, because a newcomer waits for the step in progress.
_SHORT_SHARE = 0.5
_SHORT_JOINS = 4
# Estimate before anything has been measured.
_UNMEASURED_WAIT_SECONDS = 1.0
_MIN_RETRY_SECONDS = 0.01


class Decision(NamedTuple):
    """The next work of a worker."""

    joins: Mapping[int, Sequence[QueuedSentence]]
    """Sentences that join, by tier."""
    step: int
    """Tier whose batches take the next steps."""
    max_seconds: float
    """Seconds after which no further step is begun."""
    trims: bool
    """True if it first gives back the memory that its sentences do not need."""
    hopeless: Sequence[QueuedSentence]
    """Sentences that can no longer be done in time."""
    lacking: Mapping[LoadedModel | None, QueuedSentence]
    """Sentences that wait for memory: of a model's own by model, for that of all by None."""


NOTHING = Decision({}, COMMON, math.inf, False, (), {})
"""No decision: the worker looks after its models, and asks again."""


def decide(state: State, worker: int, now: float) -> Decision:
    """Return what a worker does next; `now` is on the clock of `time.monotonic`."""
    here, queue = state.workers[worker], state.queue
    trims = worker in state.budget.trimmable()
    active, joins_at, choice = here.running, math.inf, _Choice(state, worker, now)
    rooms = _open_rooms(state, worker, now)
    turn = here.turn(active | rooms.keys())
    for tier, room in rooms.items():
        # The sentences of light callers do not stop while others are encoded, unless it is these others' turn.
        if tier == COMMON and turn == LIGHT and LIGHT in active:
            continue
        sentences = choice.in_turn(tier, room)
        # Each time that sentences join a batch, its sentences stop for an encoder run, which has a fixed cost. Waiting
        # until the costs are equal never loses more than twice what could be had by knowing arrivals: the ski-rental
        # problem (Karlin et al. 1988, "Competitive snoopy caching", section 1).
        costs = here.tiers[tier].rows * here.joining.seconds
        if costs and (waited := queue.waited(now)) < costs:
            first = next(sentences, None)
            if first and first.due_at > now:
                joins_at = min(joins_at, now + (costs - waited) / queue.count)
                continue
            sentences = chain([first] if first else [], sentences)
        if choice.take(tier, room, sentences):
            active.add(tier)
    turn = here.turn(active)
    seconds = here.seconds(turn, state.callers.light_weight) if len(active) > 1 else math.inf
    return Decision(choice.joins, turn, min(seconds, joins_at - now), trims, choice.hopeless, choice.budget.lacking)


def has_room(state: State, worker: int, now: float) -> bool:
    """Return whether a sentence that waits might join a worker."""
    return bool(_open_rooms(state, worker, now))


def takers(state: State, workers: Sequence[int], flow: FlowKey, now: float) -> Iterator[int]:
    """Yield those of some workers whose sentences the next one of a caller might join."""
    tier = state.callers.tier_of(flow.caller)
    waiting = state.waiting(tier)
    for worker in workers:
        if state.workers[worker].sentences and _Room(state, worker, tier, waiting, now).has_place(flow):
            yield worker


def _open_rooms(state: State, worker: int, now: float) -> dict[int, _Room]:
    rooms = {}
    for tier in (LIGHT, COMMON) if state.queue.count else ():
        if (waiting := state.waiting(tier)) and (room := _Room(state, worker, tier, waiting, now)).is_open:
            rooms[tier] = room
    return rooms


class _Room:
    """Places that the waiting sentences of one tier may take in a worker."""

    def __init__(self, state: State, worker: int, tier: int, waiting: Mapping[str, int], now: float) -> None:
        here, workers = state.workers[worker].tiers[tier], len(state.workers)
        limit = state.max_places
        if tier == COMMON and state.light_until > now:
            limit = max(1, int(limit * _SHORT_SHARE))
        # Its fair share of the work, so that two idle cores split it.
        total = state.rows(tier) + sum(waiting.values())
        places = max(0, min(-(-total // workers), limit) - here.rows)
        # While more wait than fit anywhere they join in groups, because each joining holds the others up.
        if total > limit * workers and here.rows and places < limit * _GROUP_SHARE:
            places = 0
        # Places for models that not all workers may decode: the others take no share of these.
        self._limited = max(limit - here.rows, 0) if state.queue.has_limited else 0
        self._waiting, self._held, self._everywhere = waiting, here.places, [each.tiers[tier] for each in state.workers]
        callers = len(waiting) + sum([share not in waiting for share in here.places])
        self._share = max(1, limit // callers) if callers else limit
        # A caller may have an equal share of the places, and spare ones: the rest of smaller callers' shares is kept.
        self._spare = places
        for share, wanted in waiting.items() if callers > 1 else ():
            self._spare -= min(wanted, self._free(share))
            if self._spare <= 0:
                break
        # They are not kept waiting by those with more: what these have beyond their shares does not count, so that the
        # batch grows for a while. Shares that are smaller than a group are free soon.
        counted = sum([min(each, self._share) for each in here.places.values()])
        self._grows = not places and counted < here.rows and self._share >= limit * _GROUP_SHARE
        self.places = max(0, limit - counted) if self._grows else places
        self._taken = Counter[str]()

    def _free(self, share: str) -> int:
        """Return the places that a share may still take of its equal part."""
        return max(0, self._share - self._held[share])

    @property
    def is_open(self) -> bool:
        """True if a further sentence might join."""
        return self._taken.total() < max(self.places, self._limited)

    def take(self, queued: QueuedSentence) -> None:
        """Count a sentence that joins."""
        self._taken[queued.request.flow.caller.share] += queued.places

    def has_place(self, flow: FlowKey) -> bool:
        """Return whether the next sentence of a caller may join."""
        share, limited = flow.caller.share, self._limited if flow.limited else 0
        if self._taken.total() >= max(self.places, limited):
            return False
        if limited or not self._grows:
            return self._taken[share] < self._free(share) + max(self._spare, limited, 0)
        # No more than until other workers have as many of its sentences.
        everywhere = sum([each.places[share] for each in self._everywhere]) + self._waiting.get(share, 0)
        part = -(-everywhere // len(self._everywhere)) - self._held[share]
        return self._taken[share] < min(self._free(share), part)


class _Choice:
    """The sentences that join a worker."""

    def __init__(self, state: State, worker: int, now: float) -> None:
        self._state, self._worker, self._now = state, worker, now
        self.budget = state.budget.copy() if state.queue.count else state.budget
        """Memory as it will be once they have joined."""
        self.hopeless: list[QueuedSentence] = []
        self.joins: dict[int, list[QueuedSentence]] = {}
        # An idle worker tries its first sentences, so that estimates made under load are renewed.
        self._tries = not state.workers[worker].sentences
        self._tried: object = None

    def take(self, tier: int, room: _Room, sentences: Iterator[QueuedSentence]) -> bool:
        """Take sentences of a tier, as long as there are places, memory and tokens to encode at once."""
        state, taken = self._state, list[QueuedSentence]()
        tokens = state.max_join_tokens
        if tier == COMMON and state.light_until > self._now:
            tokens //= _SHORT_JOINS
        for queued in sentences:
            if self._is_hopeless(queued):
                self.hopeless.append(queued)
                continue
            if taken and queued.source_tokens > tokens:
                break
            if self.budget.take(self._worker, tier, queued):
                if self._tries:
                    self._tries, self._tried = False, queued.request
                tokens -= queued.source_tokens
                room.take(queued)
                taken.append(queued)
                self.joins[tier] = taken
            if not room.is_open or None in self.budget.lacking:
                break
        return bool(taken)

    def _is_hopeless(self, queued: QueuedSentence) -> bool:
        """Return whether a sentence can no longer be done in time, and a part of it is useless."""
        if self._tries or queued.request is self._tried or queued.request.accepts_part:
            return False
        return self._now + self._state.forecast.seconds_in_batch(queued.target_tokens) > queued.request.useful_until

    def in_turn(self, tier: int, room: _Room) -> Iterator[QueuedSentence]:
        """Yield the sentences of a tier that room is left for: first the ones waiting for memory, then all in turn."""
        state = self._state

        def may_try(flow: FlowKey) -> bool:
            if not room.has_place(flow) or state.callers.tier_of(flow.caller) != tier:
                return False
            return flow.limited is None or state.budget.may_serve(self._worker, flow.limited)

        first = [queued for queued in state.budget.lacking.values() if may_try(queued.request.flow)]
        yield from first
        turns = state.queue.in_turn(self._now, lambda share: state.callers.may_have(share, tier), may_try)
        others = (queued for queued in turns if queued not in first)
        beginning = sum([not each.sentences for each in state.workers])
        if state.workers[self._worker].sentences or beginning == 1 or state.queue.has_limited:
            yield from others
            return
        # Workers that begin together should end together. Turns do not matter if nothing is left to wait.
        waiting = list(others) if state.queue.count <= beginning * room.places else []
        share = dealt([queued.cost for queued in waiting], beginning)
        yield from (waiting[index] for index in share)
        # Sentences that it could not take, such as hopeless ones, make room for others.
        rest = others if not waiting else (each for index, each in enumerate(waiting) if index not in share)
        yield from (queued for queued in rest if not (waiting and self.joins))


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


class Asked(NamedTuple):
    """A request as admission sees it."""

    flow: FlowKey
    cost: int
    """Predicted tokens, or fewer."""
    longest: int = 0
    """Predicted target tokens of its longest sentence; 0 if it is not read yet."""
    places: int = 1
    """Places of its sentences."""
    accepts_part: bool = False
    """True if a partial result is useful, so that the request need only be begun."""


def require_place(state: State, asked: Asked) -> None:
    """Refuse a request that the queue has no room for.

    No share may have more waiting than is then still free for others (the dynamic thresholds of Choudhury and Hahne
    1998): a lone one gets half of the queue, and there is always room for a newcomer. Half of the queue is kept free of
    sentences that wait for one model with limits. An empty queue refuses nothing, nor is a request without
    cost refused; a request too large for any queue is bad input and not overload.

    Raises:
        OverloadedError: It does not fit now.
    """
    queue, (flow, cost, *_) = state.queue, asked
    if not (cost and queue.count):
        return
    most, model = state.max_queue_tokens, flow.limited
    if model and (waiting := queue.limited_cost(model)) and (excess := waiting + cost - most // 2) > 0:
        raise ModelOverloadedError(
            f"model {model.name}/{model.version} is limited to {model.limits}, and {waiting} tokens wait for it "
            f"already, of at most {most // 2}",
            retry_after_seconds=_seconds_or_unmeasured(state, excess),
            reason="limit",
        )
    backlog = queue.backlog(flow.caller.share)
    if (excess := backlog + cost + queue.cost + cost - most) > 0:
        raise OverloadedError(
            f"the queue is full: {queue.cost} of at most {most} tokens wait, {backlog} of them from "
            f"this caller, and the request is predicted to need {cost}; a caller may have as many waiting as it "
            "leaves free",
            retry_after_seconds=_seconds_or_unmeasured(state, excess),
        )


def require_time(state: State, asked: Asked, seconds: float, now: float) -> float | None:
    """Refuse a request that would not be done within some seconds, unless all workers are idle, which renews estimates.

    Returns:
        Estimate of the seconds until it is done; None before the first measurement, and if its caller allows less than
        is safe.

    Raises:
        OverloadedError: It would not be done in time, or begun if a part of it is of use.
    """
    safety = state.forecast.calibration
    estimate = seconds_until_done(state, asked, now)
    if safety.allows(estimate, seconds):
        return estimate
    if state.is_idle or (asked.accepts_part and safety.allows(seconds_until_begun(state, asked, now), seconds)):
        return None
    kind = ModelOverloadedError if asked.flow.limited else OverloadedError
    raise kind(
        f"the deadline is in {seconds:.2f} s, and the request would be done in about "
        f"{safety.safe(estimate or 0.0):.2f} s: {round(_tokens_before(state, asked, now))} tokens come first",
        retry_after_seconds=_wait(state, asked, seconds, now),
        reason="deadline",
    )


def _wait(state: State, asked: Asked, seconds: float, now: float) -> float:
    """Estimate after how many seconds a request would be accepted; an unread one counts as large as others."""
    if not asked.longest:
        typical = state.forecast.typical_size
        asked = asked._replace(cost=max(asked.cost, typical.cost), longest=typical.longest)
    estimate = seconds_until_done(state, asked, now) or 0.0
    return max(state.forecast.calibration.wait(estimate, seconds), _MIN_RETRY_SECONDS)


def seconds_until_begun(state: State, asked: Asked, now: float) -> float | None:
    """Estimate when a request would be begun if it were submitted now; None before the first measurement."""
    return _seconds_for(state, asked.flow, _tokens_before(state, asked, now))


def seconds_until_done(state: State, asked: Asked, now: float) -> float | None:
    """Estimate when a request would be done if it were submitted now; None before the first measurement."""
    tier = state.callers.tier_with(asked.flow.caller, asked.places)
    rows = (asked.places + sum(state.waiting(tier).values()) + state.rows(tier)) / len(state.workers)
    rows = min(max(rows, 1.0), float(state.max_places))
    in_batch = state.forecast.seconds_in_batch(asked.longest, rows) if asked.longest else 0.0
    seconds = _seconds_for(state, asked.flow, _tokens_before(state, asked, now) + asked.cost)
    if seconds is None:
        return None
    return seconds + in_batch if state.queue.count else max(seconds, in_batch)


def is_surely_in_time(state: State, asked: Asked, seconds: float) -> bool:
    """Return whether there is time for all waiting and running work, in any order, as is usual."""
    tokens = state.queue.cost + asked.cost + state.tokens_in_batches(*TIERS)
    return state.forecast.calibration.allows(_seconds_for(state, asked.flow, tokens), seconds)


def _seconds_for(state: State, flow: FlowKey, tokens: float) -> float | None:
    """Estimate the time for tokens of a flow, which not all workers may decode."""
    workers = flow.limited.limits.workers if flow.limited else None
    return state.forecast.seconds_for(tokens, workers=workers)


def _seconds_or_unmeasured(state: State, tokens: float) -> float:
    seconds = state.forecast.seconds_for(tokens)
    return _UNMEASURED_WAIT_SECONDS if seconds is None else seconds


def _tokens_before(state: State, asked: Asked, now: float) -> float:
    """Return the predicted tokens that come first: those in turn, and those of batches that have no room for it."""
    caller = asked.flow.caller
    tier, before = state.callers.tier_with(caller, asked.places), state.queue.cost_before(caller, asked.cost)
    alone = {caller.share: 1}
    if not state.rows(tier) or any(
        _Room(state, worker, tier, alone, now).has_place(asked.flow) for worker in range(len(state.workers))
    ):
        return before
    return before + state.tokens_in_batches(tier)
