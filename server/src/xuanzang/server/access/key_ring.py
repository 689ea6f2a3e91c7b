"""The keys in use: those of the keys file as it was when it was last valid."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from typing_extensions import override

from xuanzang.server.access.callers import INVALID_KEY, KeyCaller
from xuanzang.server.access.errors import UnauthenticatedError
from xuanzang.server.access.keys import ApiKey, StoredHash, id_of, new_key
from xuanzang.server.access.keys_file import others_may_read, read_keys
from xuanzang.server.access.metrics import AccessMetrics
from xuanzang.server.access.quotas import Clock
from xuanzang.server.watched_files import ReloadedContent
from xuanzang.server.whole_files import remove_abandoned

_LOGGER = logging.getLogger(__name__)


class KeyRing(ReloadedContent[tuple[ApiKey, ...]]):
    """Callers by the id of their key. Belongs to the event loop."""

    def __init__(self, file: Path, metrics: AccessMetrics, *, clock: Clock = time.monotonic) -> None:
        """Read the keys file.

        Args:
            file: Path of the keys file.
            metrics: Metrics of access.
            clock: Monotonic clock in seconds.

        Raises:
            KeysFileError: The file is not valid.
        """
        self._file = file
        self._metrics = metrics
        self._clock = clock
        self._callers: dict[str, KeyCaller] = {}
        # Stands in for ids that the file does not have: nobody knows its key.
        self._nobodys = StoredHash.of(new_key("nobody")[1])
        super().__init__([file], kept="the old keys stay in use", count=partial(metrics.reloaded, "keys"))
        self._use(read_keys(file))
        written = file.resolve()
        remove_abandoned(written.parent, written.name)
        metrics.watch("keys")
        self._warn_of_readers()

    @property
    def usable(self) -> int:
        """Keys that are not revoked."""
        return sum(not caller.is_revoked for caller in self._callers.values())

    def caller_of(self, presented: str) -> KeyCaller:
        """Return the holder of a key.

        The work is one hash and one comparison, whether the id is unknown, the secret wrong, the key revoked or right,
        so the time of a refusal says nothing.

        Args:
            presented: What a caller presents as its key.

        Raises:
            UnauthenticatedError: There is no such key, or it is revoked.
        """
        caller = self._callers.get(id_of(presented))
        stored = self._nobodys if caller is None else caller.stored
        if not stored.is_of(presented) or caller is None:
            raise UnauthenticatedError(INVALID_KEY, self._metrics.refusals["invalid"])
        caller.require_valid()
        return caller

    @override
    def _read(self) -> tuple[ApiKey, ...]:
        return read_keys(self._file)

    @override
    def _take_over(self, content: tuple[ApiKey, ...]) -> None:
        self._use(content)
        _LOGGER.info("keys reloaded", extra={"keys": self.usable})
        self._warn_of_readers()

    def _use(self, keys: Iterable[ApiKey]) -> None:
        entries = {key.id: key for key in keys}
        for key_id in self._callers.keys() - entries.keys():
            # RPCs in progress still hold the caller.
            self._callers.pop(key_id).revoke()
            self._metrics.forget(key_id)
        for key_id, key in entries.items():
            if key_id in self._callers:
                self._callers[key_id].change(key)
            else:
                self._callers[key_id] = KeyCaller(key, self._metrics.of(key_id), clock=self._clock)
        self._metrics.keys.set(self.usable)

    def _warn_of_readers(self) -> None:
        if others_may_read(self._file):
            _LOGGER.warning("every user of this machine may read the keys file", extra={"file": str(self._file)})
