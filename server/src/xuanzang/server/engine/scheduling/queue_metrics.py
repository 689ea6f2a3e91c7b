"""What the metrics of models say of the queue."""

from __future__ import annotations

import time
from collections.abc import Iterable

from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.requests.request import QueuedSentence, Request


def count_submitted(request: Request) -> None:
    """Count a request that waits."""
    request.model.metrics.requests_waiting.inc()
    request.model.metrics.queue_tokens.inc(request.cost)


def count_closed(request: Request) -> None:
    """Count a request that is answered or given up."""
    metrics = request.model.metrics
    (metrics.requests_running if request.started else metrics.requests_waiting).dec()


def count_removed(sentences: Iterable[QueuedSentence]) -> None:
    """Count the sentences that have left the queue."""
    costs: dict[LoadedModel, int] = {}
    for queued in sentences:
        costs[queued.request.model] = costs.get(queued.request.model, 0) + queued.cost
    for model, cost in costs.items():
        model.metrics.queue_tokens.dec(cost)


def count_started(sentences: Iterable[QueuedSentence]) -> None:
    """Count the sentences that a worker has taken, and requests whose first they are as begun."""
    now = time.monotonic()
    for queued in sentences:
        metrics = queued.request.model.metrics
        metrics.queue_duration_seconds.observe(now - queued.queued_at)
        if not queued.request.started:
            queued.request.started = True
            metrics.requests_waiting.dec()
            metrics.requests_running.inc()
