"""Work that nobody waits for: it takes what time callers leave, and is given up when one of them has to wait."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

from xuanzang.server.engine.errors import OverloadedError
from xuanzang.server.engine.scheduling.fair_queue import FairQueue, Gate, Sweep
from xuanzang.server.engine.scheduling.requests.request import QueuedSentence, Request

# Share of a batch that it may have: each sentence makes the steps of the others a little longer.
_BATCH_SHARE = 1 / 8
# As long after the last caller, another is expected: then it is one sentence at a time, in one worker of all.
_CALM_SECONDS = 1.0
_RETRY_SECONDS = 1.0


class Background:
    """Sentences that wait apart from those of callers, whose queue, promises and metrics know nothing of them.

    Not thread-safe: the scheduler holds its lock.
    """

    def __init__(self, *, workers: int, max_batch_sentences: int) -> None:
        """Begin with no work.

        Args:
            workers: Number of workers.
            max_batch_sentences: Maximum sentences decoded together by one worker.
        """
        self._queue = FairQueue()
        self._requests: set[Request] = set()
        self._limit = max(1, int(max_batch_sentences * _BATCH_SHARE))
        self._running = [0] * workers
        self._called_at = -math.inf

    def caller_came(self, now: float) -> None:
        """Expect further callers, who must find workers with nothing to do and short steps.

        Args:
            now: Time on the clock of `time.monotonic`.
        """
        self._called_at = now

    @property
    def running(self) -> int:
        """Sentences in the batches of all workers."""
        return sum(self._running)

    def room(self, worker: int) -> int:
        """Return how many of the waiting sentences a worker may take."""
        is_calm = time.monotonic() - self._called_at > _CALM_SECONDS
        return min(self._queue.count, self._limit - self._running[worker] if is_calm else 1 - self.running)

    def waiting(self) -> Iterator[tuple[str, int]]:
        """Return the callers whose sentences wait, and the places that these will take."""
        return self._queue.waiting()

    def add(self, request: Request) -> None:
        """Let the sentences of a request wait."""
        self._requests.add(request)
        self._queue.add(request.sentences)

    def remove(self, request: Request) -> None:
        """Forget a request; its sentences in a batch leave at the next step if it is abandoned."""
        self._requests.discard(request)
        self._queue.remove(request.sentences)

    def take(
        self, worker: int, sweep: Sweep, gate: Gate, *, max_source_tokens: int, now: float
    ) -> list[QueuedSentence]:
        """Remove sentences for a worker that has none of callers.

        Args:
            worker: Number of the worker.
            sweep: Its sweep, which moves on.
            gate: Gate that knows what there is memory and room for.
            max_source_tokens: Maximum source tokens of all, unless the first has more.
            now: Time on the clock of `time.monotonic`.

        Returns:
            As many as there is room for.
        """
        taken = self._queue.take(sweep, gate, max_source_tokens=max_source_tokens, now=now)
        self._running[worker] += len(taken)
        for queued in taken:
            queued.request.started = True
        return taken

    def report(self, worker: int, running: int) -> None:
        """Take the number of such sentences that a worker decodes."""
        self._running[worker] = running

    def give_up(self) -> bool:
        """End all requests with an error, also those that have begun; return whether there were any."""
        requests = tuple(self._requests)
        for request in requests:
            self.remove(request)
            request.abandoned = "cancelled"
            request.fail(busy())
        return bool(requests)


def busy() -> OverloadedError:
    """Return the error of background work for which callers leave no time."""
    return OverloadedError("callers have to wait", retry_after_seconds=_RETRY_SECONDS)
