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
    """Calls that one address lately accepted and refused. Not thread-safe: `Throttles` holds its lock.

    As long as the server asked after a refusal, no call as hard as the refused one is sent. Any other is not sent with
    the probability max(0, (calls - K * accepted) / (calls + 1)), counted over a window (Beyer et al. 2016, Site
    Reliability Engineering, chapter 21); calls counted are accepted, refused, or not sent by chance.
    """

    def __init__(self) -> None:
        self._seconds: deque[_Second] = deque()
        self._calls = self._accepted = 0
        self._hold: _Hold | None = None
        self._delay = _MIN_WAIT  # that the last refusal named

    @property
    def has_refused_nothing(self) -> bool:
        """True if no counted call was refused."""
        return self._hold is None and self._calls == self._accepted

    def count(self, now: float, *, accepted: bool) -> None:
        """Count a call that was answered or refused, or not sent."""
        if not self._seconds or self._seconds[-1].number != math.floor(now):
            self._forget(now)
            self._seconds.append(_Second(math.floor(now)))
        self._seconds[-1].calls += 1
        self._seconds[-1].accepted += accepted
        self._calls += 1
        self._accepted += accepted

    def hold(self, shape: CallShape, delay: float, now: float) -> None:
        """Hold back calls like a refused one, unless they are held back already."""
        self._delay = max(delay, _MIN_WAIT)
        if not self.holds(shape, now):
            self._hold = _Hold(shape, now + delay, now + min(delay, LONGEST_HOLD))

    def holds(self, shape: CallShape, now: float) -> bool:
        """Return whether a call is too early after a refusal."""
        if self._hold is not None and now >= self._hold.until:
            self._hold = None
        return self._hold is not None and shape.is_as_hard_as(self._hold.shape)

    def chance(self, now: float) -> float:
        """Return the probability that a call is not sent, 0 to 1."""
        self._forget(now)
        if self._calls < MIN_CALLS:
            return 0.0
        return max(0.0, (self._calls - MULTIPLE * self._accepted) / (self._calls + 1))

    def wait(self, shape: CallShape, now: float, draw: float) -> float | None:
        """Decide about a call.

        Args:
            now: Time on the clock.
            draw: Random number from 0 to 1.

        Returns:
            Seconds until another try; None: send the call now.
        """
        if self._hold is not None and self.holds(shape, now):
            return self._hold.asked - now
        return self._delay if draw < self.chance(now) else None

    def _forget(self, now: float) -> None:
        while self._seconds and self._seconds[0].number <= math.floor(now) - WINDOW_SECONDS:
            old = self._seconds.popleft()
            self._calls -= old.calls
            self._accepted -= old.accepted


class Throttles:
    """The throttles of a client's addresses. Threads may share it.

    Args:
        clock: Clock in seconds.
        random: Source of random numbers from 0 to 1.
    """

    def __init__(self, addresses: int, *, clock: Callable[[], float], random: Callable[[], float]) -> None:
        self._throttles = [Throttle() for _ in range(addresses)]
        self._clock = clock
        self._random = random
        self._lock = threading.Lock()

    def fresh(self) -> Throttles:
        """Return throttles of the same addresses that know of no refusal."""
        return Throttles(len(self._throttles), clock=self._clock, random=self._random)

    def waits(self, shape: CallShape) -> dict[int, float]:
        """Return the addresses that refuse a call, each with the seconds until another try."""
        # Read without the lock: what another thread is just counting may as well come after this call.
        if all(each.has_refused_nothing for each in self._throttles):
            return {}
        with self._lock:
            now, draw = self._clock(), self._random()
            found = ((number, each.wait(shape, now, draw)) for number, each in enumerate(self._throttles))
            return {number: wait for number, wait in found if wait is not None}

    def accepted(self, number: int) -> None:
        """Count a call that an address answered."""
        with self._lock:
            self._throttles[number].count(self._clock(), accepted=True)

    def refused(self, number: int, shape: CallShape, delay: float) -> None:
        """Count a call that an address refused.

        Args:
            shape: Size of the call, and the time that it had when it was sent.
            delay: Seconds until the next try that the server asks for.
        """
        with self._lock:
            now = self._clock()
            self._throttles[number].count(now, accepted=False)
            self._throttles[number].hold(shape, delay, now)

    def held_back(self, number: int, shape: CallShape) -> None:
        """Count a call that was not sent to an address, unless it was too early: then it was not left to chance."""
        with self._lock:
            now = self._clock()
            if not self._throttles[number].holds(shape, now):
                self._throttles[number].count(now, accepted=False)
