"""Consequences of a failed try for the call that it belongs to."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class FaultKind(enum.Enum):
    """Kinds of failures, by their remedy."""

    FINAL = enum.auto()
    """The answer would be the same at any other time and address."""
    LATE = enum.auto()
    """The deadline passed."""
    OVERLOADED = enum.auto()
    """The server has too much work; it refused the call and named a delay."""
    LIMITED = enum.auto()
    """The quota of the caller is used up; the server refused the call and named a delay."""
    UNREACHED = enum.auto()
    """No server saw the call."""
    REFUSED = enum.auto()
    """A server that is starting or stopping refused the call before any work."""
    IDLE = enum.auto()
    """The server ended a call that had sent it nothing for long and was owed no answer."""
    BROKEN = enum.auto()
    """The connection ended while the call was under way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Failure of one try."""

    kind: FaultKind
    message: str = ""
    """Reason, for the log."""
    delay: float = 0.0
    """Seconds until the next try that the server asks for; only with OVERLOADED and LIMITED."""

    @property
    def blames_the_address(self) -> bool:
        """True if other calls should avoid the address, too."""
        return self.kind in (FaultKind.UNREACHED, FaultKind.REFUSED, FaultKind.BROKEN)

    @property
    def may_pass(self) -> bool:
        """True if another try may succeed, there or elsewhere."""
        return self.kind not in (FaultKind.FINAL, FaultKind.LATE)
