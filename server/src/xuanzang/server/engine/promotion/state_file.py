"""The file that keeps the state of promotion from one process to the next, and among servers of one folder."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from pydantic import ValidationError

from xuanzang.server.engine.promotion.kept_state import KeptState
from xuanzang.server.whole_files import remove_abandoned, write_whole

_LOGGER = logging.getLogger(__name__)

FILE = ".promotion.json"
"""Its name in the folder of the models; hidden files are no models."""
_MAX_BYTES = 1 << 20
_LOCK_SECONDS = 5.0
_LOCK_LOOK_SECONDS = 0.02


class StateFile:
    """Reads the state, writes each change of it, and notices those of other servers. Belongs to one event loop.

    Servers of one folder take turns by a lock on the folder of the file, which ends with its process.
    """

    def __init__(self, models: Path, chosen: Path | None) -> None:
        """Read and write nothing yet.

        Args:
            models: Folder of the models, which has the file if no other is chosen.
            chosen: File of the settings, if any.
        """
        self._file = chosen or models / FILE
        self._is_chosen = chosen is not None
        self._is_writable = True
        self._state: KeptState | None = None
        self._seen: tuple[int, ...] | None = None
        self._keeping: set[asyncio.Task[None]] = set()
        self._lock = asyncio.Lock()

    async def read(self, *, matters: bool) -> KeptState:
        """Return what the last process kept; nothing if there is none, or the file is damaged, which is logged.

        Args:
            matters: Whether more than commands change the state, so that it is a loss if it cannot be kept.
        """
        remove_abandoned(self._file.parent, self._file.name)
        self._seen = self._look()
        self._state = state = await asyncio.to_thread(self._read, sets_aside=True)
        self._is_writable = self._is_chosen or os.access(self._file.parent, os.W_OK)
        if not self._is_writable:
            level = logging.WARNING if matters else logging.INFO
            reason = "the folder of the models is read-only and --promotion-state is not set"
            _LOGGER.log(level, "pins and promotions are lost at the end of the process", extra={"reason": reason})
        return state or KeptState()

    @property
    def has_changed(self) -> bool:
        """Whether another process has written the file since this one has read or written it."""
        seen = self._look()
        return seen is not None and seen != self._seen

    @asynccontextmanager
    async def exclusive(self) -> AsyncIterator[KeptState | None]:
        """Keep other servers from the file, and yield what one of them has written meanwhile, if it is valid.

        Raises:
            OSError: The folder cannot be opened, or another process does not give it away.
        """
        async with self._lock, self._locked():
            state = None
            if self.has_changed:
                self._seen = self._look()
                state = await asyncio.to_thread(self._read)
                self._state = state or self._state
            yield state

    async def write(self, state: KeptState) -> None:
        """Write a state; when this returns it is on the disk, unless nothing is to be kept. Only while exclusive.

        Args:
            state: What is to be read at the next start.

        Raises:
            OSError: It cannot be written; the file is as it was.
        """
        is_nothing_new = state == self._state or (self._state is None and state.is_default)
        if is_nothing_new or not self._is_writable:
            return
        # The next one is written whatever it is, if this one fails.
        self._state = None
        await asyncio.to_thread(write_whole, self._file, f"{state.model_dump_json(indent=1)}\n".encode())
        self._state, self._seen = state, self._look()

    def keep(self, state: Callable[[], KeptState]) -> None:
        """Write a state soon, unless another server has written one by then; what fails is logged.

        Args:
            state: Function that returns what is to be read at the next start.
        """
        if not self._is_writable:
            return
        keeping = asyncio.create_task(self._keep(state))
        self._keeping.add(keeping)
        keeping.add_done_callback(self._keeping.discard)

    async def settle(self) -> None:
        """Wait until what was to be kept is written, or cannot be."""
        while self._keeping:
            # Those who wait may go away; the writing goes on.
            await asyncio.wait(self._keeping)

    async def _keep(self, state: Callable[[], KeptState]) -> None:
        try:
            async with self._lock, self._locked():
                if not self.has_changed:
                    await self.write(state())
        except OSError as error:
            self._warn("the state of promotion cannot be written", error.strerror)

    @asynccontextmanager
    async def _locked(self) -> AsyncIterator[None]:
        """Hold the lock among processes, for which no thread waits."""
        if not self._is_writable:
            yield
            return
        descriptor = os.open(self._file.parent, os.O_RDONLY)
        try:
            async with asyncio.timeout(_LOCK_SECONDS):
                while not _is_locked(descriptor):  # noqa: ASYNC110 - the lock of another process has no event
                    await asyncio.sleep(_LOCK_LOOK_SECONDS)
            yield
        finally:
            os.close(descriptor)

    def _look(self) -> tuple[int, ...] | None:
        try:
            status = self._file.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns

    def _read(self, *, sets_aside: bool = False) -> KeptState | None:
        """Return what the file holds; None if there is none or it is damaged, which is logged."""
        try:
            with self._file.open("rb") as file:
                content = file.read(_MAX_BYTES + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn("the state of promotion cannot be read", error.strerror)
            return None
        reason = f"it has more than {_MAX_BYTES} bytes"
        if len(content) <= _MAX_BYTES:
            try:
                state = KeptState.model_validate_json(content)
            except ValidationError as error:
                first = error.errors()[0]
                reason = ".".join(("it", *map(str, first["loc"]))) + f": {first['msg']}"
            else:
                _LOGGER.info("state of promotion read", extra={"file": str(self._file)})
                return state
        self._warn("the state of promotion is damaged and not used", reason)
        if sets_aside:
            self._set_aside()
        return None

    def _set_aside(self) -> None:
        """Keep a damaged file for those who look for the reason."""
        try:
            self._file.replace(self._file.with_name(f"{self._file.name}.damaged"))
        except OSError as error:
            self._warn("the damaged state of promotion cannot be set aside", error.strerror)

    def _warn(self, event: str, reason: str | None) -> None:
        _LOGGER.error(event, extra={"file": str(self._file), "reason": reason})


def _is_locked(descriptor: int) -> bool:
    """Take the lock if nobody has it; return whether that is so."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
