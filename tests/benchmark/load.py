"""Loads and their results: values that the load generator shares with the benchmark."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from xuanzang.loadtest.loops import poisson_arrivals


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Load on one server, each request one sentence."""

    address: str
    """Host and port of the server."""
    rate: float | None
    """Requests per second of an open loop with Poisson arrivals; None for a closed loop."""
    callers: int
    """Callers of a closed loop, each of which sends its next request when it has its answer."""
    seconds: float
    """Duration of sending; a closed loop continues until there are some answers for every caller."""
    warm_up_seconds: float
    """Part of the duration at the start that does not count."""
    seed: int
    """Seed of the arrivals and of the order of sentences."""
    key: str = ""
    """API key of all callers; empty for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """Result of a load."""

    sentences_per_second: float
    """Answers per second."""
    p50_ms: float
    """Median latency, from the time a request is due to its answer."""
    p95_ms: float
    """95th percentile of the latency."""
    p99_ms: float
    """99th percentile of the latency."""
    requests: int
    """Number of requests that count."""
    errors: int
    """Number of requests, in the warm-up too, that failed or had an empty translation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Times of one request, in seconds after the start of the load."""

    due: float
    """Time at which the request was due; if an open loop sends it late, the delay counts."""
    ended: float
    """Time of its answer or failure."""


def arrival_times(rate: float, seconds: float, seed: int) -> list[float]:
    """Draw the arrivals of a Poisson process.

    Args:
        rate: Mean arrivals per second.
        seconds: Length of the process.
        seed: Seed of the draw.

    Returns:
        Seconds after the start, ascending.
    """
    return list(poisson_arrivals(rate, seconds, random.Random(seed)))


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest value that `share` of the values do not exceed (nearest rank).

    Args:
        ordered: One or more values, ascending.
        share: Share of the values, above 0 to 1.
    """
    return ordered[math.ceil(share * len(ordered)) - 1]


def summarize(answers: Sequence[Answer], errors: int, load: Load) -> LoadResult:
    """Reduce answers to figures.

    Throughput counts the answers between the end of the warm-up and the end of the load; latency counts the requests
    that were due in that time, whenever they were answered.

    Args:
        answers: Answers of all requests that did not fail.
        errors: Number of requests that failed.
        load: Load that was answered.

    Raises:
        ValueError: There are no answers.
    """
    window = (load.warm_up_seconds, load.seconds)
    answered = sum(window[0] <= answer.ended < window[1] for answer in answers)
    latencies = sorted(answer.ended - answer.due for answer in answers if window[0] <= answer.due < window[1])
    if not latencies:
        raise ValueError(f"{load.address} answered no request in {load.seconds} s; {errors} failed")
    p50, p95, p99 = (1000 * percentile(latencies, share) for share in (0.5, 0.95, 0.99))
    return LoadResult(
        sentences_per_second=answered / (window[1] - window[0]),
        p50_ms=p50,
        p95_ms=p95,
        p99_ms=p99,
        requests=len(latencies),
        errors=errors,
    )
