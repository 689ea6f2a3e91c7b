"""The wait for servers that have never answered, and the obstacles found so far."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass

_LIMIT_SECONDS = 3.0
"""With a look at the addresses and the last try, a wrong address is reported within five seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Obstacle between a client and a server."""

    text: str
    """Description, for people."""
    is_final: bool = False
    """True if waiting cannot help, such as where one side speaks TLS and the other does not."""


Look = Callable[[int], Finding | None]
"""Looks at an address by its number, and returns what keeps the client from it; None if nothing does."""


class FirstContact:
    """Findings of a client about its addresses, gathered in the background when calls fail. Threads may share it.

    Args:
        look: Function that examines an address; called in a new thread.
        waits: Whether calls are to wait as long as their time allows.
    """

    def __init__(self, count: int, look: Look, *, waits: bool = False) -> None:
        self._count = count
        self._look = look
        self._waits = waits
        self._lock = threading.Lock()
        self._looking: set[int] = set()
        self._findings: dict[int, Finding | None] = {}

    def failed(self, number: int) -> None:
        """Look at the address of a connection that could not be opened, unless that is under way."""
        number %= self._count
        with self._lock:
            if number in self._looking:
                return
            self._looking.add(number)
        threading.Thread(target=self._find, args=(number,), daemon=True, name="xuanzang-diagnosis").start()

    def patience(self) -> float:
        """Return the maximum seconds that a call waits; infinite while a server may still appear."""
        with self._lock:
            findings = [each for each in self._findings.values() if each]
        if self._waits or len(findings) < self._count:
            return math.inf
        return 0.0 if all(each.is_final for each in findings) else _LIMIT_SECONDS

    def causes(self) -> str:
        """Return the obstacles found so far; empty if there are none."""
        with self._lock:
            return "; ".join(each.text for each in self._findings.values() if each)

    def _find(self, number: int) -> None:
        finding = None
        try:
            finding = self._look(number)
        finally:
            with self._lock:
                self._findings[number] = finding
                self._looking.discard(number)
