"""The queue of sentences between the event loop and the workers, and how batches are made of it."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable
from itertools import islice

from xuanzang.server.engine.errors import DrainingError, OverloadedError
from xuanzang.server.engine.model import LoadedModel
from xuanzang.server.engine.request import QueuedSentence, Reason, Request
from xuanzang.server.engine.throughput import Throughput
from xuanzang.server.engine.values import EngineSettings
from xuanzang.server.metrics import Metrics

# What callers are told before the first batch has been timed.
_UNMEASURED_WAIT_SECONDS = 1.0
# A batch is chosen among this many times its size: enough for like lengths, and bounded while the lock is held.
_LOOK_AHEAD = 8


class Scheduler:
    """Sentences of all callers wait here until a worker takes a batch of them.

    The event loop puts requests in and takes them out again; workers take batches. Everything is guarded by one
    condition, which is held for short work only and waited on without ticks.
    """

    def __init__(self, settings: EngineSettings, *, workers: int, metrics: Metrics) -> None:
        """Make an empty queue.

        Args:
            settings: Hold the limits of queue and batches.
            workers: That take from it.
            metrics: That tell what waits.
        """
        self._settings = settings
        self._workers = workers
        self._metrics = metrics
        self._changed = threading.Condition()
        # Oldest first in each; a model without waiting sentences has no entry.
        self._waiting: dict[LoadedModel, dict[QueuedSentence, None]] = {}
        self._waiting_tokens = 0
        self._throughput = Throughput()
        self._idle_workers = 0
        self._stopped = False

    def require_room(self, source_tokens: int) -> None:
        """Refuse early what could not be put in.

        Args:
            source_tokens: That a request has, or has at least.

        Raises:
            OverloadedError: If they would not fit now.
        """
        with self._changed:
            self._require_room(source_tokens)

    def _require_room(self, source_tokens: int) -> None:
        limit = self._settings.max_queue_source_tokens
        excess = self._waiting_tokens + source_tokens - limit
        if source_tokens == 0 or excess <= 0:
            return
        wait = self._throughput.seconds_for(excess, workers=self._workers)
        raise OverloadedError(
            f"the queue is full: {self._waiting_tokens} of at most {limit} source tokens wait, and the request needs "
            f"room for {source_tokens}",
            retry_after_seconds=_UNMEASURED_WAIT_SECONDS if wait is None else wait,
        )

    def submit(self, request: Request) -> None:
        """Put all sentences of a request into the queue, or none.

        Args:
            request: Whose `close` follows, whatever happens.

        Raises:
            OverloadedError: If they do not fit.
            DrainingError: If no batches are given any more.
        """
        with self._changed:
            if self._stopped:
                raise DrainingError("the server stopped before the translation was begun")
            self._require_room(request.source_tokens)
            self._waiting.setdefault(request.model, {}).update(dict.fromkeys(request.sentences))
            self._waiting_tokens += request.source_tokens
            self._metrics.requests_waiting.labels(*request.model.labels).inc()
            self._metrics.queue_source_tokens.labels(*request.model.labels).inc(request.source_tokens)
            self._tell_wait(request.model)
            self._changed.notify_all()

    def close(self, request: Request, abandoned: Reason | None) -> None:
        """Take out of the queue what is left of a submitted request; what is being decoded leaves at the next step.

        Args:
            request: That was submitted.
            abandoned: Why it is given up; None if it was answered.
        """
        request.abandoned = abandoned
        with self._changed:
            self._remove(queued for queued in request.sentences if queued in self._waiting.get(request.model, ()))
            state = self._metrics.requests_running if request.started else self._metrics.requests_waiting
            state.labels(*request.model.labels).dec()

    def take(self) -> list[QueuedSentence]:
        """Wait for a batch of one model's sentences.

        Returns:
            The oldest sentence and others of similar length; empty when the scheduler has been stopped.
        """
        with self._changed:
            self._idle_workers += 1
            try:
                while not self._stopped:
                    delay = self._delay()
                    if delay is not None and delay <= 0:
                        return self._form_batch()
                    self._changed.wait(delay)
                return []
            finally:
                self._idle_workers -= 1

    def record(self, source_tokens: int, seconds: float) -> None:
        """Count a batch that was decoded.

        Args:
            source_tokens: That it had.
            seconds: That it took.
        """
        with self._changed:
            self._throughput.record(source_tokens, seconds)

    def stop(self) -> None:
        """Give no batches and take no requests any more."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _oldest(self) -> QueuedSentence | None:
        heads = (next(iter(queue)) for queue in self._waiting.values())
        return min(heads, key=lambda queued: queued.queued_at, default=None)

    def _delay(self) -> float | None:
        """Seconds until a batch should start, 0 or less for now; None if nothing waits."""
        oldest = self._oldest()
        if oldest is None:
            return None
        if len(self._waiting[oldest.request.model]) >= self._settings.max_batch_sentences:
            return 0.0
        if self._waiting_tokens >= self._settings.max_batch_source_tokens:
            return 0.0
        return oldest.queued_at + self._settings.batch_delay_seconds - time.monotonic()

    def _form_batch(self) -> list[QueuedSentence]:
        oldest = self._oldest()
        if oldest is None:
            return []
        # Workers that are idle too get their share: two cores with half of the work each are done sooner.
        waiting = sum(len(queue) for queue in self._waiting.values())
        limit = min(self._settings.max_batch_sentences, math.ceil(waiting / self._idle_workers))
        queue = self._waiting[oldest.request.model]
        candidates = list(islice(queue, 1, _LOOK_AHEAD * self._settings.max_batch_sentences))
        candidates.sort(key=lambda queued: abs(queued.source_tokens - oldest.source_tokens))
        batch, longest = [oldest], oldest.source_tokens
        for queued in candidates:
            padded = (len(batch) + 1) * max(longest, queued.source_tokens)
            if len(batch) < limit and padded <= self._settings.max_batch_source_tokens:
                batch.append(queued)
                longest = max(longest, queued.source_tokens)
        self._remove(batch)
        self._start(batch)
        return batch

    def _remove(self, sentences: Iterable[QueuedSentence]) -> None:
        for queued in list(sentences):
            model = queued.request.model
            del self._waiting[model][queued]
            if not self._waiting[model]:
                del self._waiting[model]
            self._waiting_tokens -= queued.source_tokens
            self._metrics.queue_source_tokens.labels(*model.labels).dec(queued.source_tokens)
            self._tell_wait(model)

    def _start(self, batch: Iterable[QueuedSentence]) -> None:
        now = time.monotonic()
        for queued in batch:
            labels = queued.request.model.labels
            self._metrics.queue_duration_seconds.labels(*labels).observe(now - queued.queued_at)
            if not queued.request.started:
                queued.request.started = True
                self._metrics.requests_waiting.labels(*labels).dec()
                self._metrics.requests_running.labels(*labels).inc()

    def _tell_wait(self, model: LoadedModel) -> None:
        wait = self._throughput.seconds_for(self._waiting_tokens, workers=self._workers)
        self._metrics.estimated_queue_wait_seconds.labels(*model.labels).set(wait or 0.0)
