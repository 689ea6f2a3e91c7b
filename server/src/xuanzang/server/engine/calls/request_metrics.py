"""Counting of requests by how they end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence

from xuanzang.server.engine.errors import (
    DeadlineExceededError,
    DrainingError,
    InvalidInputError,
    MemoryLimitError,
    OverloadedError,
)
from xuanzang.server.engine.types import FinishReason, Hypothesis
from xuanzang.server.metric_values import LENGTH_CLASSES
from xuanzang.server.metrics import ModelMetrics


class CountedOutcome:
    """A request while it is worked on: counted if it fails, and timed in any case."""

    def __init__(self, metrics: ModelMetrics, *, exemplar: dict[str, str] | None = None) -> None:
        """Begin to time a request.

        Args:
            metrics: Metrics of the model that the request is for.
            exemplar: Labels of the exemplar of its time, or None.
        """
        self._metrics, self._exemplar = metrics, exemplar
        self._started = time.monotonic()

    def __enter__(self) -> None:
        """Work on the request."""

    def __exit__(self, _: object, error: BaseException | None, _traceback: object) -> None:
        """End the request, answered or with an error."""
        if error is not None:
            _count_failure(self._metrics, _failure_reason(error))
        self._metrics.request_duration_seconds.observe(time.monotonic() - self._started, self._exemplar)


def _count_failure(metrics: ModelMetrics, reason: str) -> None:
    metrics.request_failures[reason].inc()
    finish_reason = {"queue_timeout": "deadline"}.get(reason, reason)
    metrics.requests[finish_reason if finish_reason in ("deadline", "cancelled") else "error"].inc()


def _failure_reason(error: BaseException) -> str:
    match error:
        case DeadlineExceededError():
            return "queue_timeout" if error.in_queue else "deadline"
        case asyncio.CancelledError():
            return "cancelled"
        case InvalidInputError():
            return "invalid"
        case OverloadedError() | MemoryLimitError():
            return "overloaded"
        case DrainingError():
            return "draining"
    return "backend"


def count_answer(metrics: ModelMetrics, answer: Iterable[Sequence[Hypothesis]]) -> int:
    """Count a request that is answered.

    Args:
        metrics: Metrics of the model that translated.
        answer: Hypotheses of each text, best first.

    Returns:
        Target tokens of the best hypotheses, end tokens counted.
    """
    tokens, label = 0, "eos"
    for best, *_ in answer:
        tokens += best.token_count
        # Of texts that ended differently, the deadline of one counts before the limit of another.
        if best.finish_reason is FinishReason.DEADLINE:
            label = "deadline"
        elif best.finish_reason is FinishReason.MAX_LENGTH and label == "eos":
            label = "length"
        for match in best.matches:
            metrics.glossary_matches[match.outcome.value].inc()
    metrics.requests[label].inc()
    metrics.request_target_tokens.observe(tokens)
    return tokens


def time_answer(
    metrics: ModelMetrics, *, source_tokens: int, seconds: float, exemplar: dict[str, str] | None = None
) -> None:
    """Time a request that is answered, among those of its length.

    Args:
        metrics: Metrics of the model that translated.
        source_tokens: Source tokens of all its sentences, end tokens included.
        seconds: Time since it was accepted.
        exemplar: Labels of the exemplar of this time, or None.
    """
    for length, maximum in LENGTH_CLASSES.items():
        if source_tokens <= maximum:
            metrics.answer_duration_seconds[length].observe(seconds, exemplar)
            return
