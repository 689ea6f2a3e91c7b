"""The file that keeps the state of promotion from one process to the next."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

from pydantic import ValidationError

from xuanzang.server.engine.promotion.kept_state import KeptState
from xuanzang.server.engine.whole_files import write_whole

_LOGGER = logging.getLogger(__name__)

FILE = ".promotion.json"
"""Its name in the folder of the models; hidden files are no models."""
_MAX_BYTES = 1 << 20


class StateFile:
    """Reads the state once and writes each change of it in a thread. Belongs to one event loop."""

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
        self._writing: set[asyncio.Task[None]] = set()
        self._lock = asyncio.Lock()

    async def read(self, *, matters: bool) -> KeptState:
        """Return what the last process kept; nothing if there is none, or the file is damaged, which is logged.

        Args:
            matters: Whether more than commands change the state, so that it is a loss if it cannot be kept.
        """
        state = await asyncio.to_thread(self._read)
        self._is_writable = self._is_chosen or os.access(self._file.parent, os.W_OK)
        if not self._is_writable:
            level = logging.WARNING if matters else logging.INFO
            reason = "the folder of the models is read-only and --promotion-state is not set"
            _LOGGER.log(level, "pins and promotions are lost at the end of the process", extra={"reason": reason})
        return state

    def keep(self, state: KeptState) -> None:
        """Write a state soon, if it differs from the last one.

        Args:
            state: What is to be read at the next start.
        """
        is_nothing_new = state == self._state or (self._state is None and state.is_default)
        if is_nothing_new or not self._is_writable:
            return
        self._state = state
        writing = asyncio.create_task(self._write())
        self._writing.add(writing)
        writing.add_done_callback(self._writing.discard)

    async def settle(self) -> None:
        """Wait until what was to be kept is written, or cannot be."""
        while self._writing:
            # Those who wait may go away; the writing goes on.
            await asyncio.wait(self._writing)

    def _read(self) -> KeptState:
        try:
            with self._file.open("rb") as file:
                content = file.read(_MAX_BYTES + 1)
        except FileNotFoundError:
            return KeptState()
        except OSError as error:
            self._warn("the state of promotion cannot be read", error.strerror)
            return KeptState()
        return self._parsed(content)

    def _parsed(self, content: bytes) -> KeptState:
        reason = f"it has more than {_MAX_BYTES} bytes"
        if len(content) <= _MAX_BYTES:
            try:
                self._state = KeptState.model_validate_json(content)
            except ValidationError as error:
                first = error.errors()[0]
                reason = ".".join(("it", *map(str, first["loc"]))) + f": {first['msg']}"
            else:
                _LOGGER.info("state of promotion read", extra={"file": str(self._file)})
                return self._state
        self._warn("the state of promotion is damaged and not used", reason)
        self._set_aside()
        return KeptState()

    def _set_aside(self) -> None:
        """Keep a damaged file for those who look for the reason."""
        try:
            self._file.replace(self._file.with_name(f"{self._file.name}.damaged"))
        except OSError as error:
            self._warn("the damaged state of promotion cannot be set aside", error.strerror)

    async def _write(self) -> None:
        async with self._lock:
            state = self._state
            if state is None:
                return
            try:
                await asyncio.to_thread(write_whole, self._file, f"{state.model_dump_json(indent=1)}\n".encode())
            except OSError as error:
                # The next change is written whatever it is.
                self._state = None
                self._warn("the state of promotion cannot be written", error.strerror)

    def _warn(self, event: str, reason: str | None) -> None:
        _LOGGER.error(event, extra={"file": str(self._file), "reason": reason})
