"""Progress line on a terminal."""

from __future__ import annotations

import time
from typing import TextIO

_WIDTH = 30  # characters
_INTERVAL = 0.1  # seconds between two drawings


class Progress:
    """Counter of finished lines that draws a bar, the speed and the time left."""

    def __init__(self, total: int, stream: TextIO) -> None:
        self._total = total
        self._stream = stream
        self._done = 0
        self._begun = self._drawn = time.monotonic()

    def advance(self) -> None:
        """Count one line."""
        self._done += 1
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
        counts = f"{self._done}/{self._total} lines  {speed:.1f} lines/s"
        self._stream.write(f"\r[{bar}] {part:4.0%}  {counts}  {minutes}:{seconds:02d} left\x1b[K")
        self._stream.flush()
