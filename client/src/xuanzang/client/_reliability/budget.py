"""Budget of retries: what keeps retries and hedges from multiplying the load of servers in trouble (gRFC A6)."""

from __future__ import annotations

import threading


class RetryBudget:
    """Tokens that failures and hedges spend and answers earn; at half of the maximum or below, nothing is retried.

    This is `retryThrottling` of gRFC A6, with hedges counted like failures, because they are load just as well.
    Threads may share it.

    Args:
        max_tokens: Tokens at the beginning and at most.
        tokens_per_answer: Tokens that an answered call earns: the long-run share of retries and hedges.
    """

    def __init__(self, *, max_tokens: float = 100.0, tokens_per_answer: float = 0.1) -> None:
        self._max_tokens = max_tokens
        self._tokens_per_answer = tokens_per_answer
        self._tokens = max_tokens
        self._lock = threading.Lock()

    def earn(self) -> None:
        """Count an answered call."""
        with self._lock:
            self._tokens = min(self._max_tokens, self._tokens + self._tokens_per_answer)

    def spend(self) -> bool:
        """Count a failure or a hedge.

        Returns:
            Whether another try is allowed.
        """
        with self._lock:
            self._tokens = max(0.0, self._tokens - 1.0)
            return self._tokens > self._max_tokens / 2
