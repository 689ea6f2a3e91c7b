"""Addresses of a client: which one answers, and which one is avoided until when."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

_LOGGER = logging.getLogger("xuanzang.client")


# Seconds that an address is avoided after its first failure; each further one doubles them.
_FIRST_EJECTION = 0.5
_LONGEST_EJECTION = 15.0


@dataclass(slots=True)
class _Address:
    name: str
    tries: int = 0
    """Tries under way."""
    failures: int = 0
    """Failures without an answer in between."""
    avoided_until: float = 0.0
    """End of the ejection, if there were failures."""


class Addresses:
    """Addresses of a client. Threads may share it.

    An address that failed is ejected: calls avoid it for some time, then one tries it again. gRPC, which watches the
    connection and the health of the server meanwhile, fails that try at once if the address is still gone. If all are
    ejected, calls go to them all the same: an ejection never makes a call fail.

    Args:
        clock: Clock in seconds.
        random: Source of random numbers from 0 to 1.
        used: Number of addresses, the first ones, that are used until `widen`; None: all.
    """

    def __init__(
        self,
        names: Sequence[str],
        *,
        used: int | None = None,
        clock: Callable[[], float],
        random: Callable[[], float],
    ) -> None:
        self._addresses = [_Address(name) for name in names]
        self._clock = clock
        self._random = random
        self._lock = threading.Lock()
        self._turn = 0
        self._used = self._first = len(self._addresses) if used is None else used
        self.may_widen = used is not None
        """True until `widen` is called, if only some of the addresses are used."""
        self.have_answered = False
        """True if an address has ever given a sign of life."""

    def __len__(self) -> int:
        return self._used

    def widen(self, factor: int) -> None:
        """Use some times as many addresses as at first, at most all."""
        self.may_widen = False
        self._used = min(len(self._addresses), self._first * factor)

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
        """Return whether an address other than these is in use."""
        with self._lock:
            return any(number not in avoided and not self._is_ejected(number) for number in range(len(self)))

    def answered(self, number: int) -> None:
        """Record a sign of life: an address that answers is in use."""
        address = self._addresses[number]
        self.have_answered = True
        if address.failures:
            with self._lock:
                address.failures = 0
            _LOGGER.info("%s answers again", address.name)

    def eject(self, number: int, reason: str) -> None:
        """Avoid an address that failed, for longer each time."""
        with self._lock:
            address = self._addresses[number]
            failures, now = address.failures, self._clock()
            # Calls that failed together are one failure: the time grows only when it has passed.
            if not failures or not self._is_ejected(number):
                address.failures += 1
                seconds = min(_LONGEST_EJECTION, _FIRST_EJECTION * 2.0 ** min(failures, 16))
                address.avoided_until = now + seconds * (1 + 0.2 * self._random())
        if not failures:
            _LOGGER.warning("%s does not answer: %s", address.name, reason)

    def _is_ejected(self, number: int) -> bool:
        address = self._addresses[number]
        return address.failures > 0 and address.avoided_until > self._clock()

    def _cost(self, number: int, avoided: Collection[int]) -> tuple[bool, bool, int, int]:
        waiting = (number - self._turn) % len(self)
        return (self._is_ejected(number), number in avoided, self._addresses[number].tries, waiting)
