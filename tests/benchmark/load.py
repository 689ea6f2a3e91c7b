"""What callers do to a server, and what they get: values that the load generator and who asks it share."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Callers of one server for a while, each request one sentence."""

    address: str
    """Of the server, host:port."""
    rate: float | None
    """Requests per second of an open loop, whose Poisson arrivals wait for nobody; None for a closed loop."""
    callers: int
    """Of a closed loop: each sends its next request when it has its answer."""
    seconds: float
    """For which requests are sent; a closed loop goes on until every caller could have had some answers."""
    warm_up_seconds: float
    """From the start, in which nothing counts."""
    seed: int
    """Of arrivals and the order of sentences: the same seed, the same load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """What callers saw."""

    sentences_per_second: float
    """Answers per second."""
    p50_ms: float
    """Median latency: from when the request was due until its answer was there."""
    p95_ms: float
    """Latency that 95 of 100 requests did not exceed."""
    p99_ms: float
    """Latency that 99 of 100 requests did not exceed."""
    requests: int
    """That counted."""
    errors: int
    """Requests, counted or not, that failed or whose translation was empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One request's life, in seconds after the start of the load."""

    due: float
    """When it was to be sent; an open loop that is late sends it late, and the wait counts."""
    ended: float
    """When its answer or its failure was there."""


def arrival_times(rate: float, seconds: float, seed: int) -> list[float]:
    """Draw the arrivals of a Poisson process.

    Args:
        rate: Mean arrivals per second.
        seconds: Length of the process.
        seed: Of the draw.

    Returns:
        Seconds after its start, ascending.
    """
    generator = random.Random(seed)
    times: list[float] = []
    time = generator.expovariate(rate)
    while time < seconds:
        times.append(time)
        time += generator.expovariate(rate)
    return times


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the least value that `share` of the values do not exceed (nearest rank).

    Args:
        ordered: At least one, ascending.
        share: More than 0, at most 1.
    """
    return ordered[math.ceil(share * len(ordered)) - 1]


def summarize(answers: Sequence[Answer], errors: int, load: Load) -> LoadResult:
    """Reduce answers to figures.

    Throughput counts the answers that came between the end of the warm-up and the end of the load; latency counts the
    requests that were due then, whenever they were answered.

    Args:
        answers: Of all requests that did not fail.
        errors: Number of requests that failed.
        load: What was asked for.

    Raises:
        ValueError: Nothing was answered.
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
