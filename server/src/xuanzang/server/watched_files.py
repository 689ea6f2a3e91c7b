"""Files that are read again when they change."""

from __future__ import annotations

import asyncio
import errno
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Generic, Protocol, TypeVar

_LOGGER = logging.getLogger(__name__)

_INTERVAL_SECONDS = 1.0
_NEVER = (-1,)
"""State of a file that was never read."""

Content = TypeVar("Content")


class Reloadable(Protocol):
    """Something made of files."""

    def have_changed(self) -> bool:
        """Return whether a file has changed since the last question; asked in a thread."""

    async def reload(self) -> None:
        """Take over changed files; keep the previous state if they are invalid."""


FileState = tuple[int, ...] | None
"""Facts that tell a file from an earlier one under its name; None if it cannot be looked at."""


class ReadStates:
    """States of the files when last read: a change is over once the file was read, not once it was seen.

    A file that cannot be read, because descriptors are scarce or its owner is wrong, is therefore tried at every look.
    """

    def __init__(self) -> None:
        self._read: dict[Path, FileState] = {}

    @property
    def files(self) -> Set[Path]:
        """Files that were read."""
        return self._read.keys()

    def changed(self, files: Iterable[Path]) -> dict[Path, FileState]:
        """Return the files that have changed since they were read, or were never read, with their states of now."""
        return {file: state for file in files if (state := state_of(file)) != self._read.get(file, _NEVER)}

    def note(self, states: Mapping[Path, FileState]) -> None:
        """Take note that files were read, after they had these states."""
        self._read.update(states)

    def forget(self, file: Path) -> None:
        """Forget a file that is gone."""
        self._read.pop(file, None)


class ReloadedContent(ABC, Generic[Content]):
    """Content made of files, and made anew when they change; files that are not valid change nothing."""

    def __init__(self, files: Iterable[Path], *, kept: str, count: Callable[[bool], None]) -> None:
        """Look at files before they are read; links are followed.

        `kept` is the line of the log when they are not valid; `count` receives whether the new state is in use.
        """
        self._watched, self._kept, self._count = tuple(files), kept, count
        self._states = ReadStates()
        self._states.note(self._states.changed(self._watched))
        self._reason = ""

    @abstractmethod
    def _read(self) -> Content:
        """Read the files, in another thread; an OSError, whose message may be logged, says that they are not valid."""

    @abstractmethod
    def _take_over(self, content: Content) -> None:
        """Use the content from now on, in the event loop."""

    def _look_and_read(self) -> tuple[Mapping[Path, FileState], Content]:
        for file in self._watched:
            require_regular(file)
        # In this order: a change between the two is read at the next look.
        return self._states.changed(self._watched), self._read()

    def have_changed(self) -> bool:
        """Return whether a file has changed, come or gone since it was last read."""
        return bool(self._states.changed(self._watched))

    async def reload(self) -> None:
        """Read the files again; if they are not valid, that is counted, logged once, and tried at the next look."""
        try:
            states, content = await asyncio.to_thread(self._look_and_read)
        except OSError as error:
            self._count(False)
            if str(error) != self._reason:
                self._reason = str(error)
                _LOGGER.error(self._kept, extra={"reason": self._reason})  # noqa: TRY400 - a cause may show content
            return
        self._reason = ""
        self._take_over(content)
        self._states.note(states)
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
        except Exception as error:
            if isinstance(error, RuntimeError) and "interpreter shutdown" in str(error):
                # concurrent.futures has no error of its own for the end of a program.
                return
            # A fault of one must end neither the looks at others nor later ones: a revoked key would stay valid. And a
            # process without another thread may have one again.
            _LOGGER.exception("a reload failed")


def require_regular(file: Path) -> None:
    """Raise OSError for a file of another kind: to open a named pipe waits for a writer, perhaps for ever."""
    if file.exists() and not file.is_file():
        raise OSError(errno.EINVAL, "not a regular file", str(file))


def state_of(file: Path) -> FileState:
    """Return the state of a file; its time of change tells apart owners and modes, too."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
