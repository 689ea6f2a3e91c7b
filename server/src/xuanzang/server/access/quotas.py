"""Quotas of a key: buckets for amounts per minute, and places for sentences in translation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from xuanzang.server.access.errors import QuotaExceededError
from xuanzang.server.access.quota_counts import KeyCounts
from xuanzang.server.engine.errors import FieldViolation, InvalidInputError

Clock = Callable[[], float]

_MINUTE_SECONDS = 60.0
# Rounding errors of sums of seconds are far smaller.
_EPSILON = 1e-6
# Wait for a place before anything has been measured.
_UNMEASURED_SECONDS = 1.0
_MIN_WAIT_SECONDS = 0.01
_NEWEST_SHARE = 0.2
_UNLIMITED = -1.0


class Bucket:
    """A quota per minute: full at first, and filled evenly, so that a minute's worth may be used at once.

    Hold the lock of the counts while calls belong together: the wait for an amount, and taking it.
    """

    def __init__(self, limit: int | None, clock: Clock, counts: KeyCounts | None = None, index: int = 0) -> None:
        """Make a bucket for an amount per minute, None for no limit; it is full unless the counts know it already."""
        self._clock = clock
        self._counts = counts or KeyCounts.new()
        self._index = index
        self.change(limit)

    @property
    def limit(self) -> int | None:
        """Amount per minute; None for no limit."""
        limit, _, _ = self._counts.bucket(self._index)
        return None if limit == _UNLIMITED else int(limit)

    def change(self, limit: int | None) -> None:
        """Change the limit; usage is kept."""
        old, level = self._filled()
        if old == (limit or _UNLIMITED):
            return
        used = max(0.0, old - level) if old > 0 else 0.0
        self._set(limit or _UNLIMITED, max(0.0, (limit or 0) - used))

    def seconds_until(self, amount: int) -> float:
        """Return the seconds until an amount, at most the limit, can be taken if none is taken before.

        They are rounded up to whole milliseconds, as callers get them.
        """
        limit, level = self._filled()
        missing = amount - level
        if limit == _UNLIMITED or missing <= _EPSILON:
            return 0.0
        return math.ceil(1000 * missing * _MINUTE_SECONDS / limit) / 1000

    def take(self, amount: int) -> None:
        """Take an amount, which `seconds_until` has allowed; one below 0 gives some back."""
        limit, level = self._filled()
        if limit != _UNLIMITED:
            self._set(limit, min(level - amount, limit))

    def _filled(self) -> tuple[float, float]:
        """Return limit and level now; the limit is 0 before the first change."""
        limit, level, filled_at = self._counts.bucket(self._index)
        if limit > 0:
            level = min(level + (self._clock() - filled_at) * limit / _MINUTE_SECONDS, limit)
        return limit, level

    def _set(self, limit: float, level: float) -> None:
        self._counts.set_bucket(self._index, limit, level, self._clock())


class Places:
    """A quota of sentences in translation at the same time."""

    def __init__(self, limit: int | None, clock: Clock, counts: KeyCounts | None = None) -> None:
        """Make places that are all free unless the counts say otherwise; None for no limit."""
        self.limit = limit
        self._clock = clock
        self._counts = counts or KeyCounts.new()
        self._mean_seconds: float | None = None

    def _require(self, count: int) -> None:
        if self.limit is None:
            return
        if count > self.limit:
            description = f"must have at most {self.limit} sentences with this API key, has {count}"
            raise InvalidInputError([FieldViolation(field="contents", description=description)])
        taken = self._counts.sentences
        excess = taken + count - self.limit
        if excess > 0:
            text = f"may have {self.limit} sentences in translation: {taken} are, and the request has {count}"
            wait = self._seconds_until(excess)
            raise QuotaExceededError(f"the API key {text}", retry_after_seconds=wait, reason="quota")

    @contextmanager
    def held(self, count: int) -> Iterator[None]:
        """Hold places while sentences are in translation.

        Raises:
            InvalidInputError: The limit is smaller than the number of places.
            QuotaExceededError: Too few places are free now.
        """
        with self._counts.lock():
            self._require(count)
            self._counts.add_sentences(count)
        began = self._clock()
        try:
            yield
        finally:
            with self._counts.lock():
                self._counts.add_sentences(-count)
            seconds = self._clock() - began
            mean = seconds if self._mean_seconds is None else self._mean_seconds
            self._mean_seconds = mean + _NEWEST_SHARE * (seconds - mean)

    def _seconds_until(self, freed: int) -> float:
        """Estimate the seconds until the given places are free, each held as long as earlier ones were."""
        if self._mean_seconds is None:
            return _UNMEASURED_SECONDS
        return max(self._mean_seconds * freed / self._counts.sentences, _MIN_WAIT_SECONDS)
