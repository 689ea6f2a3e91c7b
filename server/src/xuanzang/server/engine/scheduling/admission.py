"""Whether the queue has room and time for a request."""

from __future__ import annotations

from xuanzang.server.engine.errors import ModelOverloadedError, OverloadedError
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.fair_queue import FairQueue
from xuanzang.server.engine.scheduling.load import (
    Calibration,
    DecodingTime,
    RequestSize,
    RequestSizes,
    Throughput,
)
from xuanzang.server.engine.scheduling.requests.request import FlowKey

# Estimate before anything has been measured.
_UNMEASURED_WAIT_SECONDS = 1.0
_MIN_RETRY_SECONDS = 0.01


class Admission:
    """Lets requests into the queue or refuses them at once. Not thread-safe: the scheduler holds its lock."""

    def __init__(self, queue: FairQueue, *, workers: int, max_tokens: int) -> None:
        """Guard a queue.

        Args:
            queue: Queue to keep short.
            workers: Number of workers that empty it.
            max_tokens: Maximum tokens waiting, as `predicted_cost` counts them.
        """
        self._queue = queue
        self._max_tokens = max_tokens
        self._workers = workers
        self.throughput = Throughput(workers=workers)
        self.decoding_time = DecodingTime()
        self.calibration = Calibration()
        self.request_sizes = RequestSizes()

    def require_room(self, flow: FlowKey, cost: int) -> None:
        """Refuse a request that the queue has no room for.

        No caller may have more waiting than is then still free for others (the dynamic thresholds of Choudhury and
        Hahne 1998): a lone caller gets half of the queue, and there is always room for a newcomer. An empty queue
        refuses nothing; a request that is too large for any queue is bad input and not overload.

        Args:
            flow: Flow of the request.
            cost: Predicted tokens; 0 is never refused.

        Raises:
            OverloadedError: There is no room now.
        """
        if not (cost and self._queue.count):
            return
        if flow.limited:
            self._require_limited_room(flow.limited, cost)
        own, total = self._queue.backlog(flow) + cost, self._queue.cost + cost
        excess = own + total - self._max_tokens
        if excess > 0:
            wait = self.throughput.seconds_for(excess)
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
            wait = self.throughput.seconds_for(excess)
            raise ModelOverloadedError(
                f"model {model.name}/{model.version} is limited to {model.limits}, and {waiting} tokens wait for it "
                f"already, of at most {self._max_tokens // 2}",
                retry_after_seconds=_UNMEASURED_WAIT_SECONDS if wait is None else wait,
            )

    def _seconds_for(self, flow: FlowKey, tokens: int) -> float | None:
        """Estimate the time for tokens of a flow, which not all workers may decode."""
        seconds = self.throughput.seconds_for(tokens)
        workers = flow.limited.limits.workers if flow.limited else None
        return seconds if seconds is None or not workers else seconds * max(1.0, self._workers / workers)

    def seconds_until_begun(self, flow: FlowKey, cost: int) -> float | None:
        """Estimate when a request would be begun if it were submitted now.

        Args:
            flow: Flow of the request.
            cost: Predicted tokens of the request.

        Returns:
            Seconds; None before the first measurement.
        """
        return self._seconds_for(flow, self._queue.cost_before(flow, cost))

    def is_safe(self, estimate: float | None, seconds: float) -> bool:
        """Whether a request will be done in time, as far as anybody knows.

        Args:
            estimate: Estimated seconds until then; None before the first measurement.
            seconds: Time until the result is of no use; infinite for no limit.
        """
        return estimate is None or self.calibration.safe(estimate) <= seconds

    def too_late(self, flow: FlowKey, cost: int, *, longest: int, rows: float, seconds: float) -> OverloadedError:
        """Return the refusal of a request that would not be done in time.

        Args:
            flow: Flow of the request.
            cost: Predicted tokens of the request.
            longest: Predicted target tokens of its longest sentence; 0 if it is not read yet.
            rows: Sentences of the batch that they will join.
            seconds: Time until the result is of no use.
        """
        estimate = self.seconds_until_done(flow, cost, longest=longest, rows=rows) or 0.0
        kind = ModelOverloadedError if flow.limited else OverloadedError
        return kind(
            f"the deadline is in {seconds:.2f} s, and the request would be done in about "
            f"{self.calibration.safe(estimate):.2f} s: {self._queue.cost_before(flow, cost)} tokens come first",
            retry_after_seconds=self._wait(flow, cost, longest=longest, rows=rows, seconds=seconds),
        )

    def _wait(self, flow: FlowKey, cost: int, *, longest: int, rows: float, seconds: float) -> float:
        """Estimate after how many seconds a request would be accepted; one that is not read is as large as others."""
        if not longest:
            typical = self.request_sizes.typical if self.request_sizes else RequestSize(cost, 0)
            cost, longest = max(cost, typical.cost), typical.longest
        estimate = self.seconds_until_done(flow, cost, longest=longest, rows=rows) or 0.0
        return max(self.calibration.wait(estimate, seconds), _MIN_RETRY_SECONDS)

    def seconds_until_done(self, flow: FlowKey, cost: int, *, longest: int = 0, rows: float = 1.0) -> float | None:
        """Estimate when a request would be done if it were submitted now.

        Args:
            flow: Flow of the request.
            cost: Predicted tokens of the request.
            longest: Predicted target tokens of its longest sentence; 0 if it is not read yet.
            rows: Sentences of the batch that they will join.

        Returns:
            Seconds; None before the first measurement.
        """
        in_batch = self.decoding_time.seconds_for(longest, rows) if longest else 0.0
        if not self._queue.count:
            seconds = self._seconds_for(flow, cost)
            return None if seconds is None else max(seconds, in_batch)
        seconds = self._seconds_for(flow, self._queue.cost_before(flow, cost) + cost)
        return None if seconds is None else seconds + in_batch
