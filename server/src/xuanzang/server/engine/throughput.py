"""How fast the workers get through the queue, as measured."""

from __future__ import annotations

# Each batch makes older ones count this much less: the last ten or so decide.
_DECAY = 0.9


class Throughput:
    """Source tokens per second of one busy worker: tokens and seconds of past batches, old ones fading."""

    def __init__(self) -> None:
        self._source_tokens = 0.0
        self._seconds = 0.0

    def record(self, source_tokens: int, seconds: float) -> None:
        """Count a batch.

        Args:
            source_tokens: That it had.
            seconds: That it took, greater than 0.
        """
        self._source_tokens = self._source_tokens * _DECAY + source_tokens
        self._seconds = self._seconds * _DECAY + seconds

    def seconds_for(self, source_tokens: int, *, workers: int) -> float | None:
        """Estimate how long a number of workers takes.

        Args:
            source_tokens: To get through.
            workers: Working side by side.

        Returns:
            Seconds; None before the first measurement.
        """
        if not self._source_tokens:
            return None
        return source_tokens * self._seconds / self._source_tokens / workers
