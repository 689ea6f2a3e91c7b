"""The queue of sentences between the event loop and the workers, and which worker gets how many of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Any

from xuanzang.server.engine.errors import DrainingError
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.admission import Admission
from xuanzang.server.engine.scheduling.fair_queue import FairQueue, Sweep
from xuanzang.server.engine.scheduling.request import QueuedSentence, Reason, Request
from xuanzang.server.engine.scheduling.throughput import Throughput
from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.metrics import Metrics

# Share of a batch that is free before the next sentences join a worker that is never idle.
_GROUP_SHARE = 0.25


class Scheduler:
    """Sentences of all callers wait here until a worker has room for them.

    The event loop puts requests in and takes them out again; workers ask before each of their steps. Everything is
    guarded by one condition, which is held for short work only, waited on without ticks, and left alone by workers as
    long as there is nothing for them.
    """

    def __init__(self, settings: EngineSettings, *, workers: int, metrics: Metrics) -> None:
        """Make an empty queue.

        Args:
            settings: Hold the limits of queue and batches.
            workers: That take from it.
            metrics: That tell what waits.
        """
        self._settings = settings
        self._metrics = metrics
        self._changed = threading.Condition()
        self._queue = FairQueue()
        # Half of the workers begin with the shortest sentences, half with the longest.
        self._sweeps = [Sweep(upward=worker % 2 == 0) for worker in range(workers)]
        self._throughput = Throughput(workers=workers)
        self._admission = Admission(self._queue, self._throughput, max_tokens=settings.max_queue_tokens)
        # Sentences that each worker decodes; each number is changed by its worker only.
        self._running = [0] * workers
        self._stopped = False

    def require_room(self, caller: str, cost: int) -> None:
        """Refuse early what could not be put in.

        Args:
            caller: Who asks.
            cost: Predicted tokens of the request, or fewer.

        Raises:
            OverloadedError: If they would not fit now.
        """
        with self._changed:
            self._admission.require_room(caller, cost)

    def submit(self, request: Request[Any], *, follows: bool = False) -> None:
        """Put all sentences of a request into the queue, or none.

        Args:
            request: Whose `close` follows, whatever happens.
            follows: Whether it is the second part of one that was accepted, so that it must be too.

        Raises:
            OverloadedError: If they do not fit, or cannot be begun before the deadline.
            DrainingError: If no sentences are given any more.
        """
        terms = request.terms
        with self._changed:
            if self._stopped:
                raise DrainingError("the server stopped before the translation was begun")
            if not follows:
                self._admission.require_room(terms.caller, request.cost)
                self._admission.require_time(terms.caller, min(terms.deadline, terms.cutoff) - time.monotonic())
            self._queue.add(request.sentences)
            metrics = self._metrics.of(request.model.labels)
            metrics.requests_waiting.inc()
            metrics.queue_tokens.inc(request.cost)
            self._tell_wait(request.model)
            self._changed.notify_all()

    def close(self, request: Request[Any], abandoned: Reason | None) -> None:
        """Take out of the queue what is left of a submitted request; what is being decoded leaves at the next step.

        Args:
            request: That was submitted.
            abandoned: Why it is given up; None if it was answered.
        """
        request.abandoned = abandoned
        with self._changed:
            self._forget(self._queue.remove(request.sentences))
            metrics = self._metrics.of(request.model.labels)
            (metrics.requests_running if request.started else metrics.requests_waiting).dec()

    def take(self, worker: int) -> list[QueuedSentence] | None:
        """Give a worker the sentences that it has room for; wait for some if it has nothing else to do.

        Args:
            worker: Its number, from 0.

        Returns:
            Sentences of any models, none if the worker had better go on with what it has; None when the scheduler has
            been stopped and the worker is done.
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
            most = self._settings.max_join_source_tokens
            taken = self._queue.take(self._sweeps[worker], sentences=room, source_tokens=most)
            self._running[worker] += len(taken)
            self._forget(taken)
            self._start(taken)
            return taken

    def _room(self, worker: int) -> int:
        """Sentences that a worker may take: its fair share, since two cores with half of the work are done sooner."""
        waiting = self._queue.count
        if not waiting:
            return 0
        limit, running = self._settings.max_batch_sentences, sum(self._running)
        share = -(-(running + waiting) // len(self._running))
        room = min(share, limit) - self._running[worker]
        # While more wait than have room anywhere they join in groups, because each joining holds the others up.
        crowded = running + waiting > limit * len(self._running)
        return 0 if crowded and room < limit * _GROUP_SHARE and self._running[worker] else room

    def report(self, worker: int, *, running: int) -> None:
        """Keep how many sentences a worker decodes.

        Args:
            worker: Its number; it reports itself.
            running: Sentences.
        """
        self._running[worker] = running

    def record(self, cost: int, seconds: float) -> None:
        """Count what a worker has done.

        Args:
            cost: Predicted tokens of the sentences that are done.
            seconds: That it was busy since it last recorded.
        """
        with self._changed:
            self._throughput.record(cost, seconds)

    def stop(self) -> None:
        """Give no sentences and take no requests any more."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _forget(self, sentences: Iterable[QueuedSentence]) -> None:
        """Count what is in the queue no longer."""
        costs: dict[LoadedModel, int] = {}
        for queued in sentences:
            costs[queued.request.model] = costs.get(queued.request.model, 0) + queued.cost
        for model, cost in costs.items():
            self._metrics.of(model.labels).queue_tokens.dec(cost)
            self._tell_wait(model)

    def _start(self, sentences: Iterable[QueuedSentence]) -> None:
        now = time.monotonic()
        for queued in sentences:
            metrics = self._metrics.of(queued.request.model.labels)
            metrics.queue_duration_seconds.observe(now - queued.queued_at)
            if not queued.request.started:
                queued.request.started = True
                metrics.requests_waiting.dec()
                metrics.requests_running.inc()

    def _tell_wait(self, model: LoadedModel) -> None:
        wait = self._throughput.seconds_for(self._queue.cost)
        self._metrics.of(model.labels).estimated_queue_wait_seconds.set(wait or 0.0)
