"""Time limits of tries, derived from the latencies observed so far."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TryLimits:
    """Settings of `Latencies`."""

    quantile: float = 0.95
    """Quantile of the latencies that a time limit is a multiple of."""
    multiple: float = 3.0
    """Factor on that quantile."""
    floor: float = 0.2
    """Shortest time limit in seconds: shorter ones would react to noise."""
    min_samples: int = 8
    """Latencies needed before a limit is given."""
    max_samples: int = 64
    """Latencies kept per size class, the latest ones."""


class Latencies:
    """Latencies of answered tries, kept apart by the size of their requests.

    A request with a thousand texts takes longer than one with a single word, so sizes are grouped by powers of two.
    Threads may share it.
    """

    def __init__(self, limits: TryLimits | None = None) -> None:
        self._limits = limits or TryLimits()
        self._by_class: dict[int, deque[float]] = {}
        self._lock = threading.Lock()

    def observe(self, size: int, seconds: float) -> None:
        """Record the latency of an answered try.

        Args:
            size: Size of its request in bytes.
            seconds: Time from sending to the answer.
        """
        with self._lock:
            new = deque[float](maxlen=self._limits.max_samples)
            self._by_class.setdefault(size.bit_length(), new).append(seconds)

    def limit(self, size: int) -> float | None:
        """Return the time after which a try without an answer is conspicuous.

        Args:
            size: Size of the request in bytes.

        Returns:
            Seconds, or None while too few requests of this size have been answered.
        """
        with self._lock:
            known = sorted(self._by_class.get(size.bit_length(), ()))
        if len(known) < self._limits.min_samples:
            return None
        quantile = known[min(len(known) - 1, int(self._limits.quantile * len(known)))]
        return max(self._limits.floor, self._limits.multiple * quantile)
