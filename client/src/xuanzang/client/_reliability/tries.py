"""Tries of a call: its RPC, kinds of failures, time limits by latency, the budget of retries.

The budget keeps retries and hedges from multiplying the load of servers in trouble (gRFC A6).
"""

from __future__ import annotations

import enum
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Request = TypeVar("Request")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Method(Generic[Request, Value]):
    """RPC of the service with one request and one response."""

    rpc: str
    """Its name; latencies are compared among calls of one RPC."""
    read: Callable[[Any, Request], Value] = lambda response, _: response
    """Function of the response and the request that returns the value of a call."""
    is_repeatable: bool = True
    """True if a call that a server may have carried out may be sent again."""
    may_be_hedged: bool = True
    """True if a call without an answer may be sent to a second server while the first works on it."""


STREAM: Method[Any, Any] = Method("stream", may_be_hedged=False)
"""A call with many answers; its caller sends requests without an answer again."""


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
    """The connection ended while the call was under way, perhaps because of it."""
    SILENT = enum.auto()
    """The client ended the connection, because no ping was answered: server or network is frozen, or starved."""


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
        return self.kind in (FaultKind.UNREACHED, FaultKind.REFUSED) or self.leaves_open

    @property
    def leaves_open(self) -> bool:
        """True if the server may have carried out the call."""
        return self.kind in (FaultKind.BROKEN, FaultKind.SILENT)

    @property
    def may_pass(self) -> bool:
        """True if another try may succeed, there or elsewhere."""
        return self.kind not in (FaultKind.FINAL, FaultKind.LATE)


QUANTILE = 0.95
"""Quantile of the latencies that a time limit is a multiple of."""
MULTIPLE = 3.0
"""Factor on that quantile."""
FLOOR_SECONDS = 0.2
"""Shortest time limit: shorter ones would react to noise."""
MIN_SAMPLES = 8
"""Latencies needed before a limit is given."""
MAX_SAMPLES = 64
"""Latencies kept per size class, the latest ones."""
_MAX_TOKENS = 100.0
# Tokens that an answered call earns: the long-run share of retries and hedges.
_TOKENS_PER_ANSWER = 0.1


class Latencies:
    """Latencies of answered tries, kept apart by RPC and by the size of their requests.

    A request with a thousand texts takes longer than one with a single word, so sizes are grouped by powers of two.
    Threads may share it.
    """

    def __init__(self) -> None:
        self._by_class: dict[tuple[str, int], deque[float]] = {}
        self._lock = threading.Lock()

    def observe(self, rpc: str, size: int, seconds: float) -> None:
        """Record the latency of an answered try.

        Args:
            size: Size of its request in bytes.
            seconds: Time from sending to the answer.
        """
        with self._lock:
            new = deque[float](maxlen=MAX_SAMPLES)
            self._by_class.setdefault((rpc, size.bit_length()), new).append(seconds)

    def limit(self, rpc: str, size: int) -> float | None:
        """Return the time limit of a try without an answer.

        Args:
            size: Size of the request in bytes.

        Returns:
            Seconds, or None while too few requests of this size have been answered.
        """
        with self._lock:
            latencies = sorted(self._by_class.get((rpc, size.bit_length()), ()))
        if len(latencies) < MIN_SAMPLES:
            return None
        quantile = latencies[min(len(latencies) - 1, int(QUANTILE * len(latencies)))]
        return max(FLOOR_SECONDS, MULTIPLE * quantile)


class RetryBudget:
    """Tokens that failures and hedges spend and answers earn; at half of the maximum or below, nothing is hedged.

    Refused calls are not retried then, and calls that no address takes are retried at the longest intervals only.

    This is `retryThrottling` of gRFC A6, with hedges counted like failures, because they are load just as well.
    Threads may share it.
    """

    def __init__(self) -> None:
        self._tokens = _MAX_TOKENS
        self._lock = threading.Lock()

    def earn(self) -> None:
        """Count an answered call."""
        with self._lock:
            self._tokens = min(_MAX_TOKENS, self._tokens + _TOKENS_PER_ANSWER)

    def spend(self) -> bool:
        """Count a failure or a hedge.

        Returns:
            True if another try is allowed.
        """
        with self._lock:
            self._tokens = max(0.0, self._tokens - 1.0)
            return self._tokens > _MAX_TOKENS / 2
