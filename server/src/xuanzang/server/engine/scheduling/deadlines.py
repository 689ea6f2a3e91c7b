"""The deadlines of requests: which can be kept, which sentences are urgent, and how long requests took after all."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from xuanzang.server.engine.scheduling.admission import Admission
from xuanzang.server.engine.scheduling.occupancy import Occupancy
from xuanzang.server.engine.scheduling.requests.request import (
    AbandonReason,
    DoneSentence,
    FlowKey,
    QueuedSentence,
    Request,
)

# Share of the time that a sentence may wait after which it goes before others of its caller.
_PATIENT_SHARE = 0.7
# A sentence is given up if even this share of its estimated time in a batch is more than is left. With a smaller share
# a server that is late would begin all its sentences too late, and end none of them in time.
_HOPELESS_SHARE = 1.0


class Deadlines:
    """Compares deadlines with estimates. Not thread-safe: the scheduler holds its lock."""

    def __init__(self, admission: Admission, occupancy: Occupancy) -> None:
        """Estimate by what has been measured.

        Args:
            admission: Measurements and the room of the queue.
            occupancy: Sentences that the workers decode.
        """
        self._admission, self._occupancy = admission, occupancy

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
        self._admission.require_room(flow, cost)
        # Idle workers refuse nothing, so that estimates are renewed when the load has fallen.
        if cost and not self._occupancy.is_idle:
            wait = self._admission.seconds_until_begun if accepts_part else self._admission.seconds_until_done
            seconds = useful_until - time.monotonic()
            if not self._admission.is_safe(wait(flow, cost), seconds):
                rows = self._occupancy.rows(1)
                raise self._admission.too_late(flow, cost, longest=0, rows=rows, seconds=seconds)

    def admit(self, request: Request, *, now: float, follows: bool) -> None:
        """Refuse a request that the queue has no room for, or that would not be done in time; estimate when it will be.

        One of which a part is of use need only be begun in time.

        Args:
            request: Request, which gets the estimate unless its caller allows less than is safe.
            now: Time on the clock of `time.monotonic`.
            follows: Whether it is the second part of an accepted one, so that it must be accepted, too.

        Raises:
            OverloadedError: It does not fit now, or would not be done in time.
        """
        flow, cost, longest = request.flow, request.cost, request.longest
        rows, seconds = self._occupancy.rows(request.sentence_count), request.useful_until - now
        estimate = self._admission.seconds_until_done(flow, cost, longest=longest, rows=rows)
        is_safe = self._admission.is_safe(estimate, seconds)
        if is_safe:
            request.estimate = estimate
        if follows:
            return
        self._admission.require_room(flow, cost)
        if not is_safe and request.context.accepts_part:
            is_safe = self._admission.is_safe(self._admission.seconds_until_begun(flow, cost), seconds)
        if not is_safe and not self._occupancy.is_idle:
            raise self._admission.too_late(flow, cost, longest=longest, rows=rows, seconds=seconds)

    def set_urgency(self, request: Request, now: float) -> None:
        """Set the time from which each sentence goes first."""
        if request.useful_until == math.inf:
            return
        for queued in request.sentences:
            seconds = self._admission.decoding_time.seconds_for(queued.target_tokens)
            queued.goes_first_at = now + _PATIENT_SHARE * (request.useful_until - seconds - now)

    def is_hopeless(self, queued: QueuedSentence, now: float) -> bool:
        """Whether a sentence cannot be done in time any more, and a part of it is of no use."""
        context = queued.request.context
        if math.isinf(context.deadline) or not math.isinf(context.cutoff):
            return False
        seconds = self._admission.decoding_time.seconds_for(queued.target_tokens)
        return now + _HOPELESS_SHARE * seconds > context.deadline

    def calibrate(self, request: Request, abandoned: AbandonReason | None) -> None:
        """Compare the time that a request took with its estimate, unless it was given up for another reason."""
        if request.estimate is None:
            return
        calibration, now, estimate = self._admission.calibration, time.monotonic(), request.estimate
        seconds = now - request.submitted_at
        if abandoned is None:
            calibration.observe(estimate, seconds, submitted_at=request.submitted_at)
        # A caller whose own clock runs out hangs up a moment before the deadline as it is known here.
        elif abandoned == "deadline" or (abandoned == "cancelled" and seconds > calibration.safe(estimate)):
            allowed = request.useful_until - request.submitted_at
            calibration.observe_expiry(estimate, allowed, now=now)

    def record(self, done: Sequence[DoneSentence], *, rows: int, seconds: float) -> None:
        """Measure the work that a worker has done.

        Args:
            done: Sentences that were answered or given up, at least one.
            rows: Sentences of its batches, these included.
            seconds: Busy time of the worker since it last recorded.
        """
        self._admission.throughput.record(sum(sentence.cost for sentence in done), seconds)
        for sentence in done:
            if sentence.target_tokens:
                share = sentence.target_tokens / sentence.queued.target_tokens
                self._admission.decoding_time.record(sentence.target_tokens, sentence.seconds, rows=rows, share=share)
