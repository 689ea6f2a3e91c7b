"""Addresses of a client: which one answers, and which one is avoided until when."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

_LOGGER = logging.getLogger("xuanzang.client")


@dataclass(frozen=True, slots=True, kw_only=True)
class EjectionTimes:
    """Duration of the ejection of an address that failed."""

    first: float = 0.5
    """Seconds after the first failure."""
    longest: float = 15.0
    """Seconds at most; each failure of a probe doubles the time."""


@dataclass(slots=True)
class _Address:
    name: str
    tries: int = 0
    """Tries under way."""
    last_answer: float = float("-inf")
    suspect: bool = False
    """True if a try has waited long for its answer and a probe is to find out why."""
    probing: bool = False
    failures: int = 0
    """Failures without an answer in between."""
    probe_at: float | None = None
    """Time of the next probe of an ejected address; None: it is in use."""


class Addresses:
    """Addresses of a client. Threads may share it.

    An address is in use, suspect (a probe is under way; other addresses are preferred) or ejected. An ejected one is
    probed, at growing intervals and only while there are calls, and is in use again once a probe is answered. If all
    are ejected, calls go to them all the same: an ejection never makes a call fail.

    Args:
        clock: Clock in seconds.
        random: Source of random numbers from 0 to 1.
        times: Duration of the ejection of an address that failed.
        used: Number of addresses, the first ones, that are used until `widen`; None: all.
    """

    def __init__(
        self,
        names: Sequence[str],
        *,
        used: int | None = None,
        clock: Callable[[], float],
        random: Callable[[], float],
        times: EjectionTimes | None = None,
    ) -> None:
        self._addresses = [_Address(name) for name in names]
        self._clock = clock
        self._random = random
        self._times = times or EjectionTimes()
        self._lock = threading.Lock()
        self._turn = 0
        self._listeners: set[Callable[[], None]] = set()
        self._used = self._first = len(self._addresses) if used is None else used
        self.may_widen = used is not None
        """True until `widen` is called, if only some of the addresses are used."""

    def __len__(self) -> int:
        return self._used

    def widen(self, factor: int) -> None:
        """Use some times as many addresses as at first, at most all."""
        self.may_widen = False
        self._used = min(len(self._addresses), self._first * factor)

    def listen(self, listener: Callable[[], None]) -> None:
        """Call a function whenever an address has been ejected, and when the client is closed."""
        with self._lock:
            self._listeners.add(listener)

    def unlisten(self, listener: Callable[[], None]) -> None:
        """End what `listen` began."""
        with self._lock:
            self._listeners.discard(listener)

    def wake(self) -> None:
        """Call all listeners."""
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            listener()

    def begin(self, *, avoided: Collection[int] = ()) -> int:
        """Choose the address of a try and count the try.

        Args:
            avoided: Addresses to prefer all others to.

        Returns:
            Number of the address: one in use with the fewest tries under way, in turn among equals.
        """
        with self._lock:
            number = min(range(len(self)), key=lambda each: self._cost(each, avoided))
            self._turn = number + 1
            self._addresses[number].tries += 1
            return number

    def end(self, number: int) -> None:
        """Count the end of a try."""
        with self._lock:
            self._addresses[number].tries -= 1

    def has_other(self, avoided: Collection[int]) -> bool:
        """Return whether an address other than these is in use and not suspect."""
        with self._lock:
            return any(
                each.probe_at is None and not each.suspect and number not in avoided
                for number, each in enumerate(self._addresses[: self._used])
            )

    @property
    def have_answered(self) -> bool:
        """True if an address has ever given a sign of life."""
        return any(each.last_answer != float("-inf") for each in self._addresses)

    def is_ejected(self, number: int) -> bool:
        """Return whether an address is avoided because it failed."""
        return self._addresses[number].probe_at is not None

    def answered(self, number: int) -> None:
        """Record a sign of life: an address that answers is in use."""
        with self._lock:
            address = self._addresses[number]
            recovered = address.probe_at is not None
            address.last_answer = self._clock()
            address.suspect, address.failures, address.probe_at = False, 0, None
        if recovered:
            _LOGGER.info("%s answers again", address.name)

    def was_silent_since(self, number: int, begun: float) -> bool:
        """Return whether no answer of any call came from an address since a time."""
        return self._addresses[number].last_answer < begun

    def suspect(self, number: int) -> bool:
        """Doubt an address whose answer is late.

        Returns:
            True if the caller must probe it; False if a probe is under way.
        """
        with self._lock:
            address = self._addresses[number]
            if address.probing or address.probe_at is not None:
                return False
            address.suspect = address.probing = True
            return True

    def eject(self, number: int, reason: str) -> None:
        """Avoid an address that failed, for longer each time."""
        with self._lock:
            address = self._addresses[number]
            known = address.probe_at is not None
            # Calls that failed together are one failure: the time grows only when it has passed.
            if address.probe_at is None or address.probe_at <= self._clock():
                address.failures += 1
                seconds = min(self._times.longest, self._times.first * 2.0 ** min(address.failures - 1, 16))
                address.probe_at = self._clock() + seconds * (1 + 0.2 * self._random())
            address.suspect = False
        if not known:
            _LOGGER.warning("%s does not answer: %s", address.name, reason)
            self.wake()

    def probes(self) -> list[int]:
        """Return the ejected addresses that the caller is to probe now; a lone address is probed by calls alone."""
        if len(self) == 1:
            return []
        with self._lock:
            now = self._clock()
            due = [
                number
                for number, each in enumerate(self._addresses)
                if each.probe_at is not None and each.probe_at <= now and not each.probing
            ]
            for number in due:
                self._addresses[number].probing = True
            return due

    def probed(self, number: int, reason: str | None) -> None:
        """Record the result of a probe.

        Args:
            reason: Reason why the probe failed; None: it was answered.
        """
        self._addresses[number].probing = False
        if reason is None:
            self.answered(number)
        else:
            self.eject(number, reason)

    def _cost(self, number: int, avoided: Collection[int]) -> tuple[bool, bool, bool, int, int]:
        address = self._addresses[number]
        waiting = (number - self._turn) % len(self)
        return (address.probe_at is not None, number in avoided, address.suspect, address.tries, waiting)
