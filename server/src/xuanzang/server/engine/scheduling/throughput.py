"""How fast the workers get through what waits, as measured."""

from __future__ import annotations

# What was measured this many seconds of work ago counts half.
_HALF_LIFE_SECONDS = 5.0


class Throughput:
    """Predicted tokens per second of all workers while they are busy: past tokens and seconds, old ones fading."""

    def __init__(self, *, workers: int) -> None:
        """Know nothing yet.

        Args:
            workers: Working side by side.
        """
        self._workers = workers
        self._tokens = 0.0
        self._seconds = 0.0

    def record(self, tokens: int, seconds: float) -> None:
        """Count what one worker has done.

        Args:
            tokens: Predicted for the sentences that are done.
            seconds: That the worker was busy since it last recorded.
        """
        fading = 0.5 ** (seconds / _HALF_LIFE_SECONDS)
        self._tokens = self._tokens * fading + tokens
        self._seconds = self._seconds * fading + seconds

    def seconds_for(self, tokens: int) -> float | None:
        """Estimate how long all workers take.

        Args:
            tokens: To get through.

        Returns:
            Seconds; None before the first measurement.
        """
        if not self._tokens:
            return None
        return tokens * self._seconds / self._tokens / self._workers
