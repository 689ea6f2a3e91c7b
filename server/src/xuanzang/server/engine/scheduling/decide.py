"""The decisions of the scheduler: what a worker does next, and whether a request is let in.

Both are functions of the state, which they do not change. The work of a worker reads from top to bottom: for each tier,
how many places there are, which sentences take them, and then whose turn it is, and for how long.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import filterfalse
from typing import NamedTuple

from xuanzang.server.engine.errors import ModelOverloadedError, OverloadedError
from xuanzang.server.engine.scheduling.budget import Budget
from xuanzang.server.engine.scheduling.queue import COMMON, LIGHT, TIERS
from xuanzang.server.engine.scheduling.request import FlowKey, QueuedSentence
from xuanzang.server.engine.scheduling.state import State, TierState

# Share of a batch that is free before the next sentences join a worker that is never idle.
_GROUP_SHARE = 0.25
# Steps that may follow each other; sentences are hardly ever longer.
_MAX_STEPS = 64
# Estimate before anything has been measured.
_UNMEASURED_WAIT_SECONDS = 1.0
_MIN_RETRY_SECONDS = 0.01


class Decision(NamedTuple):
    """The next work of a worker."""

    joins: Mapping[int, Sequence[QueuedSentence]]
    """Sentences that join, by tier."""
    step: int
    """Tier whose batches take the next steps."""
    max_steps: int
    """Steps before the next decision."""
    max_seconds: float
    """Seconds after which no further step is begun."""
    trims: bool
    """True if it first gives back the memory that its sentences do not need."""
    budget: Budget
    """Memory as it is once they have joined, and the sentences that wait for some."""


def decide(state: State, worker: int, now: float) -> Decision:
    """Return what a worker does next; `now` is on the clock of `time.monotonic`."""
    tiers, queue, budget = state.workers[worker].tiers, state.queue, state.budget
    joins: dict[int, list[QueuedSentence]] = {}
    max_steps, joins_at = _MAX_STEPS, math.inf
    if queue.count:
        budget = budget.copy()
        # The sentences of light callers do not stop while others are encoded, unless it is these others' turn, and no
        # worker without light ones could take them.
        are_light = all(each.tiers[LIGHT].rows for each in state.others(worker))
        encodes_common = _turn(tiers) == COMMON and (queue.limited or are_light)
        for tier in (LIGHT, COMMON):
            if tier == COMMON and (tiers[LIGHT].rows or LIGHT in joins) and not encodes_common:
                break
            room = _Room(state, worker, tier)
            if not room.is_open:
                continue
            # Each time that sentences join a batch, its sentences stop for a run of the encoder.
            # Waiting until the costs are equal never loses more than twice what could be had by knowing arrivals: the
            # ski-rental problem (Karlin et al. 1988, "Competitive snoopy caching", section 1).
            cost = tiers[tier].rows * state.workers[worker].joining_seconds
            if cost and cost > (waited := queue.waited(now)):
                joins_at = min(joins_at, now + (cost - waited) / queue.count)
                continue
            taken, is_cut = _taken(state, worker, tier, room, budget)
            if taken:
                joins[tier] = taken
            if is_cut:
                max_steps = 1
    active = [tier for tier in TIERS if tiers[tier].rows or tier in joins]
    step, seconds = active[0] if active else COMMON, joins_at - now
    if len(active) == len(TIERS):
        step = _turn(tiers)
        ahead = tiers[1 - step].time - tiers[step].time
        seconds = min(seconds, ahead * (state.queue.light_weight if step == LIGHT else 1.0))
    return Decision(joins, step, max_steps, seconds, budget.trims(worker), budget)


def _turn(tiers: Sequence[TierState]) -> int:
    """Return which of both tiers has the next turn: the one with less time, by their weights."""
    return LIGHT if tiers[LIGHT].time <= tiers[COMMON].time else COMMON


class _Room:
    """Places that the waiting sentences of one tier may take in a worker."""

    def __init__(self, state: State, worker: int, tier: int) -> None:
        held, waiting, limit = state.workers[worker].tiers[tier].rows, state.queue.waiting(tier), state.max_places
        workers, total = len(state.workers), state.rows(tier) + waiting
        # Its fair share of the work, so that two idle cores split it.
        self.places = max(0, min(-(-total // workers), limit) - held)
        # While more wait than fit anywhere they join in groups, because each joining holds the others up.
        if total > limit * workers and held and self.places < limit * _GROUP_SHARE:
            self.places = 0
        # Places for models that not all workers may decode: the others take no share of these.
        self._limited = max(limit - held, 0) if state.queue.limited else 0
        self._waiting, self._taken = waiting, 0

    def take(self, queued: QueuedSentence) -> None:
        """Count a sentence that joins."""
        self._taken += queued.places

    @property
    def is_open(self) -> bool:
        """True if a further sentence might join."""
        return bool(self._waiting) and self._taken < max(self.places, self._limited)

    def has_place(self, flow: FlowKey) -> bool:
        """Return whether the next sentence of a caller may join."""
        return self._taken < self.places or (flow.limited is not None and self.is_open)


def _taken(state: State, worker: int, tier: int, room: _Room, budget: Budget) -> tuple[list[QueuedSentence], bool]:
    """Return the sentences of a tier that join, and whether others must wait for the next run of the encoder.

    Nothing interrupts a run, so while all other workers encode long sentences, this one does not: newcomers find it.
    """

    def may_take(flow: FlowKey) -> bool:
        return room.has_place(flow) and (flow.limited is None or budget.may_serve(worker, flow.limited))

    taken: list[QueuedSentence] = []
    tokens = state.max_join_tokens
    others = [each.encodes_long for each in state.others(worker)]
    takes_long = not others or not all(others)
    for queued in _in_turn(state, worker, tier, room, may_take):
        if (taken and queued.source_tokens > tokens) or (queued.is_long and not takes_long):
            return taken, True
        if budget.take(worker, tier, queued):
            tokens -= queued.source_tokens
            room.take(queued)
            taken.append(queued)
        if not room.is_open or None in budget.lacking:
            break
    return taken, False


def _in_turn(
    state: State, worker: int, tier: int, room: _Room, may_take: Callable[[FlowKey], bool]
) -> Iterator[QueuedSentence]:
    """Yield the sentences that a worker may take: first the ones waiting for memory, then all in turn."""
    queue, turns = state.queue, state.queue.in_turn(tier, may_take)
    if lacking := state.budget.lacking.values():
        flows = [(queued, queued.request.flow) for queued in lacking]
        first = [queued for queued, flow in flows if queue.tier_of(flow.caller) == tier and may_take(flow)]
        yield from first
        turns = filterfalse(first.__contains__, turns)
    idle = sum([each.is_idle for each in state.workers]) if state.workers[worker].is_idle else 0
    if min(idle, queue.count) > 1 and queue.count <= idle * room.places and not queue.limited:
        # Workers that begin together should end together. Turns do not matter if nothing is left to wait.
        waiting = list(turns)
        yield from [waiting[index] for index in dealt([queued.cost for queued in waiting], idle)]
    else:
        yield from turns


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

    def retry_after(tokens: int) -> float:
        return state.forecast.seconds_for(tokens, workers=len(state.workers)) or _UNMEASURED_WAIT_SECONDS

    most, model = state.max_queue_tokens, flow.limited
    if model and (waiting := queue.limited[model]) and (excess := waiting + cost - most // 2) > 0:
        raise ModelOverloadedError(
            f"model {model.name}/{model.version} is limited to {model.limits}, and {waiting} tokens wait for it "
            f"already, of at most {most // 2}",
            retry_after_seconds=retry_after(excess),
            reason="limit",
        )
    backlog = queue.backlog(flow.caller.share)
    if (excess := backlog + cost + queue.cost + cost - most) > 0:
        raise OverloadedError(
            f"the queue is full: {queue.cost} of at most {most} tokens wait, {backlog} of them from "
            f"this caller, and the request is predicted to need {cost}; a caller may have as many waiting as it "
            "leaves free",
            retry_after_seconds=retry_after(excess),
        )


def require_time(state: State, asked: Asked, seconds: float) -> float:
    """Refuse a request that would not be done within some seconds, unless all workers are idle, which renews estimates.

    Returns:
        Estimate of the seconds until it is done; 0 before the first measurement, and if its caller allows less than
        is safe.

    Raises:
        OverloadedError: It would not be done in time, or begun if a part of it is of use.
    """
    safe = state.forecast.calibration.safe
    tokens_before, begun, done = estimate(state, asked)
    if not done or safe(done) <= seconds:
        return done
    if state.is_idle or (asked.accepts_part and safe(begun) <= seconds):
        return 0.0
    if not asked.longest:
        # An unread one is told to wait as long as one of the usual size.
        cost, longest = state.forecast.typical_size
        tokens_before, _, done = estimate(state, asked._replace(cost=max(asked.cost, cost), longest=longest))
    kind = ModelOverloadedError if asked.flow.limited else OverloadedError
    raise kind(
        f"the deadline is in {seconds:.2f} s, and the request would be done in about {safe(done):.2f} s: "
        f"{round(tokens_before)} tokens come first",
        retry_after_seconds=max(state.forecast.calibration.wait(done, seconds), _MIN_RETRY_SECONDS),
        reason="deadline",
    )


class Estimate(NamedTuple):
    """When a request would be decoded if it were submitted now."""

    tokens_before: float
    """Predicted tokens that come first: those in turn, and those of the batches, if these are full."""
    begun: float
    """Seconds until it is begun; 0 before the first measurement."""
    done: float
    """Seconds until it is done; 0 before the first measurement."""


def estimate(state: State, asked: Asked) -> Estimate:
    """Estimate when a request would be decoded."""
    (caller, limited), workers, forecast = asked.flow, len(state.workers), state.forecast
    tier = state.queue.tier_of(caller)
    held, before = state.rows(tier), float(state.queue.cost_before(caller, asked.cost))
    if held >= workers * state.max_places:
        # The sentences of batches still need, on average, half of their tokens.
        before += sum([each.tiers[tier].tokens for each in state.workers]) / 2
    able = min(limited.limits.workers or workers, workers) if limited else workers
    done = forecast.seconds_for(before + asked.cost, workers=able)
    rows = min(max((asked.places + state.queue.waiting(tier) + held) / workers, 1.0), state.max_places)
    in_batch = forecast.seconds_in_batch(asked.longest, rows) if done else 0.0
    done = done + in_batch if state.queue.count else max(done, in_batch)
    return Estimate(before, forecast.seconds_for(before, workers=able), done)
