"""Adaptive throttling: calls that an overloaded server would refuse are not sent to it."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

WINDOW_SECONDS = 10.0
"""Seconds whose calls count."""
MULTIPLE = 2.0
"""Calls sent for each that is accepted, K: more waste work on refusals, fewer notice later that there is room."""
MIN_CALLS = 10
"""Calls in the window below which nothing follows from them."""
LONGEST_HOLD = 5.0
"""Maximum seconds that one refusal holds calls back."""

# Calls with nearly as much time, and with at least this share of the size, are taken to be alike.
_SAME_TIME = 1.1
_SAME_SIZE = 0.5
# A delay of nothing would be no delay.
_MIN_WAIT = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class CallShape:
    """Properties that make a call hard to accept for a busy server."""

    size: int
    """Size of the request in bytes."""
    seconds: float
    """Time until its deadline."""

    def is_as_hard_as(self, other: CallShape) -> bool:
        """Return whether a server that refuses the other call refuses this one: it is as large and as short of time."""
        return self.size >= _SAME_SIZE * other.size and self.seconds <= _SAME_TIME * other.seconds


@dataclass(frozen=True, slots=True)
class _Hold:
    shape: CallShape
    asked: float
    """Time of the next try that the server asks for."""
    until: float
    """End of the hold: the time above, or earlier."""


@dataclass(slots=True)
class _Second:
    number: int
    calls: int = 0
    accepted: int = 0


class Throttle:
    """Calls that one address lately accepted and refused. Threads may share it.

    As long as the server asked after a refusal, no call as hard as the refused one is sent. Any other is not sent with
    the probability max(0, (calls - K * accepted) / (calls + 1)), counted over a window (Beyer et al. 2016, Site
    Reliability Engineering, chapter 21); calls counted are accepted, refused, or not sent by chance.

    Args:
        clock: Clock in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._seconds: deque[_Second] = deque()
        self._calls = self._accepted = 0
        self._hold: _Hold | None = None
        self._delay = _MIN_WAIT  # that the last refusal named

    @property
    def has_refused_nothing(self) -> bool:
        """True if no counted call was refused. No lock: a count by another thread may as well come after this call."""
        return self._hold is None and self._calls == self._accepted

    def wait(self, shape: CallShape, draw: float) -> float | None:
        """Decide about a call.

        Args:
            draw: Random number from 0 to 1.

        Returns:
            Seconds until another try; None: send the call now.
        """
        with self._lock:
            now = self._clock()
            if self._hold is not None and self._holds(shape, now):
                return self._hold.asked - now
            return self._delay if draw < self._chance(now) else None

    def accepted(self) -> None:
        """Count a call that was answered."""
        with self._lock:
            self._count(self._clock(), accepted=True)

    def refused(self, shape: CallShape, delay: float) -> None:
        """Count a call that was refused, and hold back calls like it, unless they are held back already.

        Args:
            shape: Size of the call, and the time that it had when it was sent.
            delay: Seconds until the next try that the server asks for.
        """
        with self._lock:
            now, self._delay = self._clock(), max(delay, _MIN_WAIT)
            self._count(now, accepted=False)
            if not self._holds(shape, now):
                self._hold = _Hold(shape, now + delay, now + min(delay, LONGEST_HOLD))

    def held_back(self, shape: CallShape) -> None:
        """Count a call that was not sent, unless it was too early after a refusal: then it was not left to chance."""
        with self._lock:
            now = self._clock()
            if not self._holds(shape, now):
                self._count(now, accepted=False)

    def _holds(self, shape: CallShape, now: float) -> bool:
        if self._hold is not None and now >= self._hold.until:
            self._hold = None
        return self._hold is not None and shape.is_as_hard_as(self._hold.shape)

    def _chance(self, now: float) -> float:
        self._forget(now)
        if self._calls < MIN_CALLS:
            return 0.0
        return max(0.0, (self._calls - MULTIPLE * self._accepted) / (self._calls + 1))

    def _count(self, now: float, *, accepted: bool) -> None:
        if not self._seconds or self._seconds[-1].number != math.floor(now):
            self._forget(now)
            self._seconds.append(_Second(math.floor(now)))
        self._seconds[-1].calls += 1
        self._seconds[-1].accepted += accepted
        self._calls += 1
        self._accepted += accepted

    def _forget(self, now: float) -> None:
        while self._seconds and self._seconds[0].number <= math.floor(now) - WINDOW_SECONDS:
            old = self._seconds.popleft()
            self._calls -= old.calls
            self._accepted -= old.accepted
