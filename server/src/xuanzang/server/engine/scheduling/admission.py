"""Admission of requests: room and time for them."""

from __future__ import annotations

import time
from typing import NamedTuple

from xuanzang.server.engine.errors import ModelOverloadedError, OverloadedError
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.call import FlowKey
from xuanzang.server.engine.scheduling.decide import Room
from xuanzang.server.engine.scheduling.forecast import RequestSize, RequestSizes
from xuanzang.server.engine.scheduling.request import Request
from xuanzang.server.engine.scheduling.state import State

# Estimate before anything has been measured.
_UNMEASURED_WAIT_SECONDS = 1.0
_MIN_RETRY_SECONDS = 0.01


class _Asked(NamedTuple):
    """A request as admission sees it."""

    flow: FlowKey
    cost: int
    """Predicted tokens, or fewer."""
    longest: int = 0
    """Predicted target tokens of its longest sentence; 0 if it is not read yet."""
    places: int = 1
    """Places of its sentences."""


class Admission:
    """Lets requests into the queue or refuses them at once. Not thread-safe: the scheduler holds its lock."""

    def __init__(self, state: State, *, max_tokens: int) -> None:
        """Guard the queue; `max_tokens` wait at most, as `predicted_cost` counts them."""
        self._state, self._max_tokens = state, max_tokens
        self.request_sizes = RequestSizes()

    def seconds_until_begun(self, flow: FlowKey) -> float | None:
        """Estimate when a small request of a flow would be begun; None if no worker has more than a sentence to do."""
        if self._state.is_calm:
            return None
        return self._seconds_until_begun(_Asked(flow, self.request_sizes.smallest)) or 0.0

    def require(self, flow: FlowKey, cost: int, *, useful_until: float, accepts_part: bool = False) -> None:
        """Refuse a request that is not tokenised yet, as `admit` would refuse one of a single sentence.

        Args:
            flow: Flow of the request.
            cost: Predicted tokens of the request, or fewer.
            useful_until: Time after which the result is of no use, on the clock of `time.monotonic`.
            accepts_part: Whether what has been found by then is of use, so that the request need only be begun.

        Raises:
            OverloadedError: It does not fit now, or would not be done in time.
        """
        # Idle workers refuse nothing, so that estimates are renewed when the load has fallen.
        if not cost or self._state.is_idle:
            return
        self._require_room(flow, cost)
        now, calibration = time.monotonic(), self._state.forecast.calibration
        calibration.forget(now)
        seconds = useful_until - now
        # There is nearly always time for all that waits and runs, in any order.
        tokens = self._state.queue.cost + cost + self._state.held_tokens
        if calibration.allows(self._seconds_for(flow, tokens), seconds):
            return
        asked = _Asked(flow, cost)
        estimate = self._seconds_until_begun(asked) if accepts_part else self._seconds_until_done(asked)
        if not calibration.allows(estimate, seconds):
            raise self._too_late(asked, seconds)

    def admit(self, request: Request, *, now: float, follows: bool) -> None:
        """Refuse a request that the queue has no room for, or that would not be done in time; estimate when it will be.

        One of which a part is of use need only be begun in time. One that `follows`, the second part of an accepted
        one, must be accepted, too. The request gets the estimate unless its caller allows less than is safe.

        Raises:
            OverloadedError: It does not fit now, or would not be done in time.
        """
        calibration = self._state.forecast.calibration
        calibration.forget(now)
        asked = _Asked(request.flow, request.cost, request.longest, request.places)
        seconds, estimate = request.useful_until - now, self._seconds_until_done(asked)
        is_safe = calibration.allows(estimate, seconds)
        if is_safe:
            request.estimate = estimate
        if follows:
            return
        self._require_room(request.flow, request.cost)
        if not is_safe and request.context.accepts_part:
            is_safe = calibration.allows(self._seconds_until_begun(asked), seconds)
        if not is_safe and not self._state.is_idle:
            raise self._too_late(asked, seconds)

    def _require_room(self, flow: FlowKey, cost: int) -> None:
        """Refuse a request that the queue has no room for.

        No share may have more waiting than is then still free for others (the dynamic thresholds of Choudhury and
        Hahne 1998): a lone one gets half of the queue, and there is always room for a newcomer. An empty queue refuses
        nothing, nor is a request without cost refused; one that is too large for any queue is bad input and not
        overload.
        """
        queue = self._state.queue
        if not (cost and queue.count):
            return
        if flow.limited:
            self._require_limited_room(flow.limited, cost)
        backlog = queue.backlog(flow.caller.share)
        excess = backlog + cost + queue.cost + cost - self._max_tokens
        if excess > 0:
            wait = self._state.forecast.seconds_for(excess)
            raise OverloadedError(
                f"the queue is full: {queue.cost} of at most {self._max_tokens} tokens wait, {backlog} of them from "
                f"this caller, and the request is predicted to need {cost}; a caller may have as many waiting as it "
                "leaves free",
                retry_after_seconds=_UNMEASURED_WAIT_SECONDS if wait is None else wait,
            )

    def _require_limited_room(self, model: LoadedModel, cost: int) -> None:
        """Keep half of the queue free of sentences that wait for a model with limits of its own."""
        waiting = self._state.queue.limited_cost(model)
        excess = waiting + cost - self._max_tokens // 2
        if waiting and excess > 0:
            wait = self._state.forecast.seconds_for(excess)
            raise ModelOverloadedError(
                f"model {model.name}/{model.version} is limited to {model.limits}, and {waiting} tokens wait for it "
                f"already, of at most {self._max_tokens // 2}",
                retry_after_seconds=_UNMEASURED_WAIT_SECONDS if wait is None else wait,
                reason="limit",
            )

    def _seconds_for(self, flow: FlowKey, tokens: float) -> float | None:
        """Estimate the time for tokens of a flow, which not all workers may decode."""
        workers = flow.limited.limits.workers if flow.limited else None
        return self._state.forecast.seconds_for(tokens, workers=workers)

    def _tokens_before(self, asked: _Asked) -> float:
        """Return the predicted tokens that come first: those in turn, and those of batches that have no room for it."""
        state, caller = self._state, asked.flow.caller
        tier = state.tier_with(caller, asked.places)
        before = state.queue.cost_before(caller, asked.cost)
        rows = [each.tiers[tier].rows for each in state.workers]
        if not any(rows) or self._has_room(asked, tier):
            return before
        return before + sum(each.tiers[tier].tokens for each in state.workers) / 2

    def _has_room(self, asked: _Asked, tier: int) -> bool:
        """Return whether the next sentence of a caller is begun at once, if it is the only one that waits."""
        now, waiting = time.monotonic(), {asked.flow.caller.share: 1}
        rooms = (Room(self._state, worker, tier, waiting, now) for worker in range(len(self._state.workers)))
        return any(room.has_place(asked.flow) for room in rooms)

    def _seconds_until_begun(self, asked: _Asked) -> float | None:
        """Estimate when a request would be begun if it were submitted now; None before the first measurement."""
        return self._seconds_for(asked.flow, self._tokens_before(asked))

    def _seconds_until_done(self, asked: _Asked) -> float | None:
        """Estimate when a request would be done if it were submitted now; None before the first measurement."""
        state = self._state
        rows = state.rows_with(asked.flow.caller, asked.places)
        in_batch = state.forecast.seconds_in_batch(asked.longest, rows) if asked.longest else 0.0
        seconds = self._seconds_for(asked.flow, self._tokens_before(asked) + asked.cost)
        if seconds is None:
            return None
        return seconds + in_batch if state.queue.count else max(seconds, in_batch)

    def _too_late(self, asked: _Asked, seconds: float) -> OverloadedError:
        """Return the refusal of a request that would not be done within a time."""
        estimate = self._seconds_until_done(asked) or 0.0
        kind = ModelOverloadedError if asked.flow.limited else OverloadedError
        return kind(
            f"the deadline is in {seconds:.2f} s, and the request would be done in about "
            f"{self._state.forecast.calibration.safe(estimate):.2f} s: {round(self._tokens_before(asked))} tokens "
            "come first",
            retry_after_seconds=self._wait(asked, seconds),
            reason="deadline",
        )

    def _wait(self, asked: _Asked, seconds: float) -> float:
        """Estimate after how many seconds a request would be accepted; one that is not read is as large as others."""
        if not asked.longest:
            typical = self.request_sizes.typical if self.request_sizes else RequestSize(asked.cost, 0)
            asked = asked._replace(cost=max(asked.cost, typical.cost), longest=typical.longest)
        estimate = self._seconds_until_done(asked) or 0.0
        return max(self._state.forecast.calibration.wait(estimate, seconds), _MIN_RETRY_SECONDS)
