"""Files that are read again when they change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

_LOGGER = logging.getLogger(__name__)

_INTERVAL_SECONDS = 1.0


class Reloadable(Protocol):
    """Something made of files."""

    async def reload_if_changed(self) -> None:
        """Take over the files if they have changed; keep what there is if they are not valid."""


class WatchedFiles:
    """Files whose changes are noticed by their size, time and place on the disk."""

    def __init__(self, files: Iterable[Path]) -> None:
        """Remember files as they are now.

        Args:
            files: Paths; links are followed.
        """
        self._files = tuple(files)
        self._seen = self._looks()

    def have_changed(self) -> bool:
        """Whether a file has changed since the last question, or since the beginning."""
        seen, self._seen = self._seen, self._looks()
        return seen != self._seen

    def _looks(self) -> list[tuple[int, ...] | None]:
        return [_look(file) for file in self._files]


async def reload_when_changed(parts: Sequence[Reloadable], *, interval: float = _INTERVAL_SECONDS) -> None:
    """Reload parts when their files change, until cancelled.

    Args:
        parts: Parts made of files.
        interval: Seconds between two looks.
    """
    while True:
        await asyncio.sleep(interval)
        for part in parts:
            try:
                await part.reload_if_changed()
            except Exception:
                # A fault of one look must not end all later ones: a revoked key would stay valid.
                _LOGGER.exception("a reload failed")


def _look(file: Path) -> tuple[int, ...] | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
