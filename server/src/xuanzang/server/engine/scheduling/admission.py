"""Whether the queue has room and time for a request."""

from __future__ import annotations

from xuanzang.server.engine.errors import OverloadedError
from xuanzang.server.engine.scheduling.fair_queue import FairQueue
from xuanzang.server.engine.scheduling.load import Throughput

# Estimate before anything has been measured.
_UNMEASURED_WAIT_SECONDS = 1.0
# The rate is measured on the running sentences. While these are few it is too low, by up to about this factor.
_UNDERRATED = 2.0


class Admission:
    """Lets requests into the queue or refuses them at once. Not thread-safe: the scheduler holds its lock."""

    def __init__(self, queue: FairQueue, throughput: Throughput, *, max_tokens: int) -> None:
        """Guard a queue.

        Args:
            queue: Queue to keep short.
            throughput: Rate of the workers that empty it.
            max_tokens: Maximum tokens waiting, as `predicted_cost` counts them.
        """
        self._queue = queue
        self._throughput = throughput
        self._max_tokens = max_tokens

    def require_room(self, caller: str, cost: int) -> None:
        """Refuse a request that the queue has no room for.

        No caller may have more waiting than is then still free for others (the dynamic thresholds of Choudhury and
        Hahne 1998): a lone caller gets half of the queue, and there is always room for a newcomer. An empty queue
        refuses nothing; a request that is too large for any queue is bad input and not overload.

        Args:
            caller: Identity of the caller.
            cost: Predicted tokens; 0 is never refused.

        Raises:
            OverloadedError: There is no room now.
        """
        own, total = self._queue.backlog(caller) + cost, self._queue.cost + cost
        excess = own + total - self._max_tokens
        if cost and self._queue.count and excess > 0:
            raise OverloadedError(
                f"the queue is full: {self._queue.cost} of at most {self._max_tokens} tokens wait, "
                f"{self._queue.backlog(caller)} of them from this caller, and the request is predicted to need {cost}; "
                "a caller may have as many waiting as it leaves free",
                retry_after_seconds=self._seconds_for(excess),
            )

    def require_time(self, caller: str, seconds: float) -> None:
        """Refuse a request that could not be begun in time.

        Args:
            caller: Identity of the caller.
            seconds: Time until the answer is of no use; less than 0 if that has passed.

        Raises:
            OverloadedError: The sentences that come first take longer.
        """
        ahead = self._queue.cost_ahead(caller)
        wait = self._throughput.seconds_for(ahead)
        if wait is not None and wait > _UNDERRATED * max(seconds, 0.0):
            raise OverloadedError(
                f"the deadline is in {seconds:.2f} s, and {ahead} tokens that wait come first",
                retry_after_seconds=max(wait - seconds, 0.0),
            )

    def _seconds_for(self, cost: int) -> float:
        wait = self._throughput.seconds_for(cost)
        return _UNMEASURED_WAIT_SECONDS if wait is None else wait
