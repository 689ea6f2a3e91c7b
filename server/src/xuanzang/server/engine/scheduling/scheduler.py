"""The queue of sentences between the event loop and the workers, and the share of it that each worker gets."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from xuanzang.server.engine.errors import DrainingError
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.admission import Admission
from xuanzang.server.engine.scheduling.fair_queue import FairQueue, Sweep
from xuanzang.server.engine.scheduling.load import Throughput
from xuanzang.server.engine.scheduling.request import AbandonReason, QueuedSentence, Request
from xuanzang.server.engine.settings import EngineSettings

# Share of a batch that is free before the next sentences join a worker that is never idle.
_GROUP_SHARE = 0.25


class Scheduler:
    """Sentences of all callers wait here until a worker has room for them.

    The event loop adds and removes requests; workers ask before each of their steps. Everything is guarded by one
    condition, which is held for short work only, waited on without polling, and left alone by workers as long as there
    is nothing for them.
    """

    def __init__(self, settings: EngineSettings, *, workers: int) -> None:
        """Make an empty queue.

        Args:
            settings: Limits of queue and batches.
            workers: Number of workers.
        """
        self._settings = settings
        self._changed = threading.Condition()
        self._queue = FairQueue()
        # Half of the workers begin with the shortest sentences, half with the longest.
        self._sweeps = [Sweep(upward=worker % 2 == 0) for worker in range(workers)]
        self._throughput = Throughput(workers=workers)
        self._admission = Admission(self._queue, self._throughput, max_tokens=settings.max_queue_tokens)
        # Sentences in the batches of each worker; each number is changed by its worker only.
        self._running = [0] * workers
        self._stopped = False

    def require_room(self, caller: str, cost: int) -> None:
        """Refuse early what could not be put in.

        Args:
            caller: Identity of the caller.
            cost: Predicted tokens of the request, or fewer.

        Raises:
            OverloadedError: They do not fit now.
        """
        with self._changed:
            self._admission.require_room(caller, cost)

    def submit(self, request: Request, *, follows: bool = False) -> None:
        """Put all sentences of a request into the queue, or none.

        Args:
            request: New request; the caller must `close` it in any case.
            follows: Whether it is the second part of an accepted one, so that it must be accepted, too.

        Raises:
            OverloadedError: They do not fit, or cannot be begun before the deadline.
            DrainingError: The scheduler has been stopped.
        """
        context = request.context
        with self._changed:
            if self._stopped:
                raise DrainingError("the server stopped before the translation was begun")
            if not follows:
                self._admission.require_room(context.caller, request.cost)
                self._admission.require_time(context.caller, min(context.deadline, context.cutoff) - time.monotonic())
            self._queue.add(request.sentences)
            request.model.metrics.requests_waiting.inc()
            request.model.metrics.queue_tokens.inc(request.cost)
            self._publish_wait(request.model)
            self._changed.notify_all()

    def close(self, request: Request, abandoned: AbandonReason | None) -> None:
        """Remove what is left of a submitted request; sentences in a batch leave at the next step.

        Args:
            request: Submitted request.
            abandoned: Why it is given up; None if it was answered.
        """
        request.abandoned = abandoned
        with self._changed:
            self._forget(self._queue.remove(request.sentences))
            metrics = request.model.metrics
            (metrics.requests_running if request.started else metrics.requests_waiting).dec()

    def take(self, worker: int) -> list[QueuedSentence] | None:
        """Give a worker the sentences that it has room for; wait for some if it has nothing else to do.

        Args:
            worker: Number of the worker, from 0.

        Returns:
            Sentences of any models, empty if the worker should go on with those it has; None when the scheduler has
            been stopped and the worker has none.
        """
        running = self._running[worker]
        if running and self._room(worker) <= 0:
            return []
        with self._changed:
            while not running and not self._queue.count and not self._stopped:
                self._changed.wait()
            if self._stopped:
                return [] if running else None
            room = max(0, self._room(worker))
            limit = self._settings.max_join_source_tokens
            taken = self._queue.take(self._sweeps[worker], max_sentences=room, max_source_tokens=limit)
            self._running[worker] += len(taken)
            self._forget(taken)
            self._start(taken)
            return taken

    def _room(self, worker: int) -> int:
        """Return how many sentences a worker may take: its fair share, so that two idle cores split the work."""
        waiting = self._queue.count
        if not waiting:
            return 0
        limit, running = self._settings.max_batch_sentences, sum(self._running)
        share = -(-(running + waiting) // len(self._running))
        room = min(share, limit) - self._running[worker]
        # While more wait than fit anywhere they join in groups, because each joining holds the others up.
        crowded = running + waiting > limit * len(self._running)
        return 0 if crowded and room < limit * _GROUP_SHARE and self._running[worker] else room

    def report(self, worker: int, *, running: int) -> None:
        """Take the number of sentences that a worker decodes.

        Args:
            worker: Number of the worker, which reports itself.
            running: Number of sentences.
        """
        self._running[worker] = running

    def record(self, cost: int, seconds: float) -> None:
        """Measure the work that a worker has done.

        Args:
            cost: Predicted tokens of the sentences that are done.
            seconds: Busy time of the worker since it last recorded.
        """
        with self._changed:
            self._throughput.record(cost, seconds)

    def stop(self) -> None:
        """Accept no requests and give out no sentences any more."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _forget(self, sentences: Iterable[QueuedSentence]) -> None:
        """Count the sentences that have left the queue."""
        costs: dict[LoadedModel, int] = {}
        for queued in sentences:
            costs[queued.request.model] = costs.get(queued.request.model, 0) + queued.cost
        for model, cost in costs.items():
            model.metrics.queue_tokens.dec(cost)
            self._publish_wait(model)

    def _start(self, sentences: Iterable[QueuedSentence]) -> None:
        now = time.monotonic()
        for queued in sentences:
            metrics = queued.request.model.metrics
            metrics.queue_duration_seconds.observe(now - queued.queued_at)
            if not queued.request.started:
                queued.request.started = True
                metrics.requests_waiting.dec()
                metrics.requests_running.inc()

    def _publish_wait(self, model: LoadedModel) -> None:
        wait = self._throughput.seconds_for(self._queue.cost)
        model.metrics.estimated_queue_wait_seconds.set(wait or 0.0)
