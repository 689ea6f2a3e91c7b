"""How many sentences each worker decodes, and how many more it may take."""

from __future__ import annotations

from xuanzang.server.engine.scheduling.background import Background
from xuanzang.server.engine.scheduling.fair_queue import FairQueue

# Share of a batch that is free before the next sentences join a worker that is never idle.
_GROUP_SHARE = 0.25


class Occupancy:
    """Sentences in the batches of the workers, each number changed by its worker only."""

    def __init__(self, queue: FairQueue, background: Background, *, workers: int, max_batch_sentences: int) -> None:
        """Start with idle workers.

        Args:
            queue: Sentences of callers that wait.
            background: Sentences that nobody waits for.
            workers: Number of workers.
            max_batch_sentences: Maximum sentences decoded together by one worker.
        """
        self._queue, self._background = queue, background
        self._limit = max_batch_sentences
        self.running = [0] * workers
        """Sentences in the batches of each worker."""

    @property
    def is_idle(self) -> bool:
        """Whether no sentence of a caller waits or is decoded."""
        return not self._queue.count and sum(self.running) == self._background.running

    @property
    def is_crowded(self) -> bool:
        """Whether more sentences of callers wait than fit into the batches, all workers together."""
        running = sum(self.running) - self._background.running
        return running + self._queue.count > self._limit * len(self.running)

    def rows(self, sentences: int) -> float:
        """Predict the sentences of the batch that so many more will join."""
        rows = (self._queue.count + sum(self.running) + sentences) / len(self.running)
        return min(max(rows, 1.0), float(self._limit))

    def room(self, worker: int) -> int:
        """Return how many sentences a worker may take: its fair share, so that two idle cores split the work."""
        waiting = self._queue.count
        if not waiting:
            return 0
        running = sum(self.running)
        share = -(-(running + waiting) // len(self.running))
        room = min(share, self._limit) - self.running[worker]
        # While more wait than fit anywhere they join in groups, because each joining holds the others up.
        crowded = running + waiting > self._limit * len(self.running)
        return 0 if crowded and room < self._limit * _GROUP_SHARE and self.running[worker] else room

    def has_background(self, worker: int) -> bool:
        """Whether a worker has nothing to do for callers, and something that nobody waits for."""
        is_free = not self._queue.count and self.running[worker] == self._background.running_of(worker)
        return is_free and self._background.room(worker) > 0
