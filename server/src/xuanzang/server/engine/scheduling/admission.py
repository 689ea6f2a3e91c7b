"""Admission of requests: room and time for them, and how far the predicted time was right."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import NamedTuple

from xuanzang.server.engine.errors import ModelOverloadedError, OverloadedError
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.call import FlowKey
from xuanzang.server.engine.scheduling.fair_queue import FairQueue
from xuanzang.server.engine.scheduling.load import (
    Calibration,
    DecodingTime,
    LengthRatio,
    RequestSize,
    RequestSizes,
    Throughput,
)
from xuanzang.server.engine.scheduling.places import Places
from xuanzang.server.engine.scheduling.request import AbandonReason, DoneSentence, QueuedSentence, Request

# Estimate before anything has been measured.
_UNMEASURED_WAIT_SECONDS = 1.0
_MIN_RETRY_SECONDS = 0.01
# Share of the time that a sentence may wait after which it goes before others of its caller.
_PATIENT_SHARE = 0.7
# Clocks of callers are ahead of ours by at most so much.
_CLOCK_SECONDS = 0.02


class _Asked(NamedTuple):
    """A request as admission sees it."""

    flow: FlowKey
    tier: int
    cost: int
    """Predicted tokens, or fewer."""
    longest: int = 0
    """Predicted target tokens of its longest sentence; 0 if it is not read yet."""
    rows: float = 1.0
    """Sentences of the batch that they will join."""


class Admission:
    """Lets requests into the queue or refuses them at once. Not thread-safe: the scheduler holds its lock."""

    def __init__(self, queue: FairQueue, places: Places, *, workers: int, max_tokens: int) -> None:
        """Guard a queue that so many workers empty; `max_tokens` wait at most, as `predicted_cost` counts them."""
        self._queue, self._places = queue, places
        self._max_tokens = max_tokens
        self._workers = workers
        self._throughput = Throughput(workers=workers)
        # All tiers together: in one that refuses everything nothing would be measured.
        self._decoding_time = DecodingTime()
        self._lengths = LengthRatio()
        self._calibration = Calibration()
        self.request_sizes = RequestSizes()

    def estimated_wait(self) -> float:
        """Estimate the time until the queue is empty, seconds; 0 before the first measurement."""
        return self._throughput.seconds_for(self._queue.cost * self._lengths.value) or 0.0

    def seconds_until_begun(self, flow: FlowKey) -> float | None:
        """Estimate when a small request of a flow would be begun; None if no worker has more than a sentence to do."""
        if self._places.is_calm:
            return None
        cost = self.request_sizes.smallest
        asked = _Asked(flow, self._places.tier_of(flow.caller, sentences=1, tokens=cost), cost)
        return self._seconds_until_begun(asked) or 0.0

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
        if not cost or self._places.is_idle:
            return
        self._require_room(flow, cost)
        now = time.monotonic()
        self._calibration.forget(now)
        seconds = useful_until - now
        # There is nearly always time for all that waits and runs, in any order.
        tokens = self._queue.cost + cost + self._places.held_tokens
        if self._calibration.allows(self._seconds_for(flow, tokens), seconds):
            return
        asked = _Asked(flow, self._places.tier_of(flow.caller, sentences=1, tokens=cost), cost)
        estimate = self._seconds_until_begun(asked) if accepts_part else self._seconds_until_done(asked)
        if not self._calibration.allows(estimate, seconds):
            raise self._too_late(asked, seconds)

    def admit(self, request: Request, *, now: float, follows: bool) -> None:
        """Refuse a request that the queue has no room for, or that would not be done in time; estimate when it will be.

        One of which a part is of use need only be begun in time. One that `follows`, the second part of an accepted
        one, must be accepted, too. The request gets the estimate unless its caller allows less than is safe.

        Raises:
            OverloadedError: It does not fit now, or would not be done in time.
        """
        self._calibration.forget(now)
        flow, cost, sentences = request.flow, request.cost, request.sentence_count
        tier = self._places.tier_of(flow.caller, sentences=sentences, tokens=cost)
        asked = _Asked(flow, tier, cost, request.longest, self._places.rows(tier, sentences))
        seconds, estimate = request.useful_until - now, self._seconds_until_done(asked)
        is_safe = self._calibration.allows(estimate, seconds)
        if is_safe:
            request.estimate = estimate
        if follows:
            return
        self._require_room(flow, cost)
        if not is_safe and request.context.accepts_part:
            is_safe = self._calibration.allows(self._seconds_until_begun(asked), seconds)
        if not is_safe and not self._places.is_idle:
            raise self._too_late(asked, seconds)

    def set_urgency(self, request: Request, now: float) -> None:
        """Set the time from which each sentence goes first."""
        if request.useful_until == math.inf:
            return
        for queued in request.sentences:
            seconds = self._decoding_time.seconds_for(queued.target_tokens)
            queued.goes_first_at = now + _PATIENT_SHARE * (request.useful_until - seconds - now)

    def is_hopeless(self, queued: QueuedSentence, now: float) -> bool:
        """Return whether a sentence cannot be done in time any more, and a part of it is of no use."""
        context = queued.request.context
        if math.isinf(context.deadline) or not math.isinf(context.cutoff):
            return False
        # With a smaller share of the estimate a server that is late would begin all its sentences too late, and end
        # none of them in time.
        return now + self._decoding_time.seconds_for(queued.target_tokens) > context.deadline

    def calibrate(self, request: Request, abandoned: AbandonReason | None) -> None:
        """Compare the time that a request took with its estimate, unless it was given up for another reason."""
        if request.estimate is None:
            return
        calibration, now, estimate = self._calibration, time.monotonic(), request.estimate
        seconds = now - request.submitted_at
        if abandoned is None:
            calibration.observe(estimate, seconds, submitted_at=request.submitted_at)
        # A caller whose own clock runs out hangs up a moment before the deadline as it is known here. One that hangs up
        # before says nothing of the server, however long it has waited: it alone knows how long it meant to.
        elif abandoned == "deadline" or (abandoned == "cancelled" and now >= request.useful_until - _CLOCK_SECONDS):
            allowed = request.useful_until - request.submitted_at
            calibration.observe_expiry(estimate, allowed, now=now)

    def record(self, worker: int, done: Sequence[DoneSentence], *, seconds: float) -> None:
        """Measure the sentences that a worker has answered or given up, at least one, since it last recorded."""
        tokens = 0
        for sentence in done:
            tokens += sentence.cost
            if sentence.target_tokens:
                tier, share = sentence.queued.tier, min(1.0, sentence.target_tokens / sentence.queued.target_tokens)
                if sentence.is_whole:
                    self._lengths.record(sentence.queued.target_tokens, sentence.target_tokens)
                # Those that are done have just left.
                rows = self._places.rows_of(worker, tier) + len(done)
                self._decoding_time.record(sentence.target_tokens, sentence.seconds, rows=rows, share=share)
        self._throughput.record(tokens, seconds)

    def _require_room(self, flow: FlowKey, cost: int) -> None:
        """Refuse a request that the queue has no room for.

        No caller may have more waiting than is then still free for others (the dynamic thresholds of Choudhury and
        Hahne 1998): a lone caller gets half of the queue, and there is always room for a newcomer. An empty queue
        refuses nothing, nor is a request without cost refused; one that is too large for any queue is bad input and
        not overload.
        """
        if not (cost and self._queue.count):
            return
        if flow.limited:
            self._require_limited_room(flow.limited, cost)
        own, total = self._queue.backlog(flow) + cost, self._queue.cost + cost
        excess = own + total - self._max_tokens
        if excess > 0:
            wait = self._throughput.seconds_for(excess)
            raise OverloadedError(
                f"the queue is full: {self._queue.cost} of at most {self._max_tokens} tokens wait, "
                f"{self._queue.backlog(flow)} of them from this caller, and the request is predicted to need {cost}; "
                "a caller may have as many waiting as it leaves free",
                retry_after_seconds=_UNMEASURED_WAIT_SECONDS if wait is None else wait,
            )

    def _require_limited_room(self, model: LoadedModel, cost: int) -> None:
        """Keep half of the queue free of sentences that wait for a model with limits of its own."""
        waiting = self._queue.cost_for(model)
        excess = waiting + cost - self._max_tokens // 2
        if waiting and excess > 0:
            wait = self._throughput.seconds_for(excess)
            raise ModelOverloadedError(
                f"model {model.name}/{model.version} is limited to {model.limits}, and {waiting} tokens wait for it "
                f"already, of at most {self._max_tokens // 2}",
                retry_after_seconds=_UNMEASURED_WAIT_SECONDS if wait is None else wait,
                reason="limit",
            )

    def _seconds_for(self, flow: FlowKey, tokens: int) -> float | None:
        """Estimate the time for tokens of a flow, which not all workers may decode."""
        seconds = self._throughput.seconds_for(tokens * self._lengths.value)
        workers = flow.limited.limits.workers if flow.limited else None
        return seconds if seconds is None or not workers else seconds * max(1.0, self._workers / workers)

    def _held_tokens(self, asked: _Asked) -> int:
        """Return the predicted tokens of the sentences whose places a request must wait for; 0 if some are free."""
        tokens = self._places.held[asked.tier].tokens
        return 0 if not tokens or self._places.has_room(asked.flow.caller, asked.tier) else tokens

    def _seconds_until_begun(self, asked: _Asked) -> float | None:
        """Estimate when a request would be begun if it were submitted now; None before the first measurement."""
        tokens = self._queue.cost_before(asked.flow, asked.cost) + self._held_tokens(asked)
        return self._seconds_for(asked.flow, tokens)

    def _seconds_until_done(self, asked: _Asked) -> float | None:
        """Estimate when a request would be done if it were submitted now; None before the first measurement."""
        longest = asked.longest * self._lengths.value
        in_batch = self._decoding_time.seconds_for(longest, asked.rows) if longest else 0.0
        flow, cost = asked.flow, asked.cost
        held = self._held_tokens(asked)
        if not self._queue.count:
            seconds = self._seconds_for(flow, cost + held)
            return None if seconds is None else max(seconds, in_batch)
        before = self._queue.cost_before(flow, cost) + cost
        seconds, with_held = self._seconds_for(flow, before), self._seconds_for(flow, before + held)
        return None if seconds is None or with_held is None else max(seconds + in_batch, with_held)

    def _too_late(self, asked: _Asked, seconds: float) -> OverloadedError:
        """Return the refusal of a request that would not be done within a time."""
        estimate = self._seconds_until_done(asked) or 0.0
        tokens = self._queue.cost_before(asked.flow, asked.cost) + self._held_tokens(asked)
        kind = ModelOverloadedError if asked.flow.limited else OverloadedError
        return kind(
            f"the deadline is in {seconds:.2f} s, and the request would be done in about "
            f"{self._calibration.safe(estimate):.2f} s: {tokens} tokens come first",
            retry_after_seconds=self._wait(asked, seconds),
            reason="deadline",
        )

    def _wait(self, asked: _Asked, seconds: float) -> float:
        """Estimate after how many seconds a request would be accepted; one that is not read is as large as others."""
        if not asked.longest:
            typical = self.request_sizes.typical if self.request_sizes else RequestSize(asked.cost, 0)
            rows = self._places.rows(asked.tier, 1)
            asked = asked._replace(cost=max(asked.cost, typical.cost), longest=typical.longest, rows=rows)
        estimate = self._seconds_until_done(asked) or 0.0
        return max(self._calibration.wait(estimate, seconds), _MIN_RETRY_SECONDS)
