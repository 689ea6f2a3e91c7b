"""Progress line on a terminal."""

from __future__ import annotations

import time
from typing import TextIO

_WIDTH = 30  # characters
_INTERVAL = 0.1  # seconds between two drawings


class Progress:
    """Counter of finished lines or texts that draws a bar, the speed and the time left.

    Args:
        noun: Name of the counted things.
    """

    def __init__(self, total: int, stream: TextIO, *, noun: str = "lines") -> None:
        self._total = total
        self._noun = noun
        self._stream = stream
        self._done = 0
        self._begun = self._drawn = time.monotonic()

    def advance(self) -> None:
        """Count one."""
        self.reach(self._done + 1)

    def reach(self, done: int) -> None:
        """Draw the line, unless that was just done.

        Args:
            done: Number of those finished.
        """
        self._done = done
        now = time.monotonic()
        if now - self._drawn >= _INTERVAL or self._done == self._total:
            self._drawn = now
            self._draw(self._done / max(now - self._begun, 1e-9))

    def close(self) -> None:
        """End the line, so that later output starts on a new one."""
        if self._done:
            self._stream.write("\n")

    def _draw(self, speed: float) -> None:
        part = self._done / self._total
        bar = ("#" * round(part * _WIDTH)).ljust(_WIDTH, ".")
        minutes, seconds = divmod(round((self._total - self._done) / speed), 60)
        counts = f"{self._done}/{self._total} {self._noun}  {speed:.1f} {self._noun}/s"
        self._stream.write(f"\r[{bar}] {part:4.0%}  {counts}  {minutes}:{seconds:02d} left\x1b[K")
        self._stream.flush()
