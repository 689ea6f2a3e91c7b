"""Quotas of a key: buckets for what fits into a minute, and places for what is in translation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from xuanzang.server.access.errors import QuotaExceededError
from xuanzang.server.engine.errors import FieldViolation, InvalidInputError

Clock = Callable[[], float]

_MINUTE_SECONDS = 60.0
# Sums of seconds and their parts differ from what they should be by far less.
_EPSILON = 1e-6
# Wait for a place before anything has been measured.
_UNMEASURED_SECONDS = 1.0
_MIN_WAIT_SECONDS = 0.01
_NEWEST_SHARE = 0.2


class Bucket:
    """A quota per minute: full at first, and filled evenly, so that a minute's worth may be used at once."""

    def __init__(self, limit: int | None, clock: Clock) -> None:
        """Make a full bucket for an amount per minute; None for no limit."""
        self.limit = limit
        self._clock = clock
        self._level = float(limit or 0)
        self._filled_at = clock()

    def change(self, limit: int | None) -> None:
        """Change the limit; what has been used stays used."""
        self._fill()
        used = max(0.0, self.limit - self._level) if self.limit is not None else 0.0
        self.limit = limit
        self._level = max(0.0, (limit or 0) - used)

    def seconds_until(self, amount: int) -> float:
        """Return the seconds after which an amount, at most the limit, can be taken if nobody takes any before.

        They are rounded up to whole milliseconds, as callers get them.
        """
        if self.limit is None:
            return 0.0
        self._fill()
        missing = amount - self._level
        if missing <= _EPSILON:
            return 0.0
        return math.ceil(1000 * missing * _MINUTE_SECONDS / self.limit) / 1000

    def take(self, amount: int) -> None:
        """Take an amount, which `seconds_until` has allowed; one below 0 gives some back."""
        if self.limit is not None:
            self._fill()
            self._level = min(self._level - amount, self.limit)

    def _fill(self) -> None:
        now = self._clock()
        if self.limit is not None:
            self._level = min(self._level + (now - self._filled_at) * self.limit / _MINUTE_SECONDS, self.limit)
        self._filled_at = now


class Places:
    """A quota of sentences in translation at the same time."""

    def __init__(self, limit: int | None, clock: Clock) -> None:
        """Make places that are all free; None for no limit."""
        self.limit = limit
        self.taken = 0
        self._clock = clock
        self._mean_seconds: float | None = None

    def require(self, count: int) -> None:
        """Refuse sentences that there are no places for: never so many, InvalidInputError; now, QuotaExceededError."""
        if self.limit is None:
            return
        if count > self.limit:
            description = f"must have at most {self.limit} sentences with this API key, has {count}"
            raise InvalidInputError([FieldViolation(field="contents", description=description)])
        excess = self.taken + count - self.limit
        if excess > 0:
            text = f"may have {self.limit} sentences in translation: {self.taken} are, and the request has {count}"
            wait = self._seconds_until(excess)
            raise QuotaExceededError(f"the API key {text}", retry_after_seconds=wait, reason="quota")

    @contextmanager
    def held(self, count: int) -> Iterator[None]:
        """Hold places, which `require` has allowed, while sentences are in translation."""
        self.taken += count
        began = self._clock()
        try:
            yield
        finally:
            self.taken -= count
            seconds = self._clock() - began
            mean = seconds if self._mean_seconds is None else self._mean_seconds
            self._mean_seconds = mean + _NEWEST_SHARE * (seconds - mean)

    def _seconds_until(self, freed: int) -> float:
        """Estimate when so many places will be free again, each being held as long as others were."""
        if self._mean_seconds is None:
            return _UNMEASURED_SECONDS
        return max(self._mean_seconds * freed / self.taken, _MIN_WAIT_SECONDS)
