"""Files that are read again when they change."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Generic, Protocol, TypeVar

_LOGGER = logging.getLogger(__name__)

_INTERVAL_SECONDS = 1.0

Content = TypeVar("Content")


class Reloadable(Protocol):
    """Something made of files."""

    def have_changed(self) -> bool:
        """Return whether a file has changed since the last question; asked in a thread."""

    async def reload(self) -> None:
        """Take over what is new in the files; keep what there is if they are not valid."""


class ReloadedContent(ABC, Generic[Content]):
    """Something made of files, and made anew when they change; files that are not valid change nothing."""

    def __init__(self, files: Iterable[Path], *, kept: str, count: Callable[[bool], None]) -> None:
        """Remember files by size, time and place on the disk, before they are read; links are followed.

        `kept` is the line of the log when they are not valid; `count` is told whether the new state is in use.
        """
        self._watched, self._kept, self._count = tuple(files), kept, count
        self._seen = [look_at(file) for file in self._watched]

    @abstractmethod
    def _read(self) -> Content:
        """Read the files, in another thread; an OSError, whose message may be logged, says that they are not valid."""

    @abstractmethod
    def _take_over(self, content: Content) -> None:
        """Use the content from now on, in the event loop."""

    def have_changed(self) -> bool:
        """Return whether a file has changed, come or gone since the last question, or since the beginning."""
        before, self._seen = self._seen, [look_at(file) for file in self._watched]
        return before != self._seen

    async def reload(self) -> None:
        """Read the files again; if they are not valid, that is logged and counted."""
        try:
            content = await asyncio.to_thread(self._read)
        except OSError as error:
            self._count(False)
            _LOGGER.error(self._kept, extra={"reason": str(error)})  # noqa: TRY400 - a cause may show what is in a file
            return
        self._take_over(content)
        self._count(True)


async def reload_when_changed(parts: Sequence[Reloadable], *, interval: float = _INTERVAL_SECONDS) -> None:
    """Reload parts when their files change, looked at every `interval` seconds, until cancelled."""
    while parts:
        await asyncio.sleep(interval)
        await reload_changed(parts)


async def reload_changed(parts: Sequence[Reloadable]) -> None:
    """Reload the parts whose files have changed since the last look."""
    for part in parts:
        try:
            if await asyncio.to_thread(part.have_changed):
                await part.reload()
        except Exception:
            # A fault of one must end neither the looks at others nor later ones: a revoked key would stay valid. And a
            # process without another thread may have one again.
            _LOGGER.exception("a reload failed")


def look_at(file: Path) -> tuple[int, ...] | None:
    """Return what tells a file from an earlier one under its name; None if it cannot be looked at."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
