"""Usage of the quotas of keys: numbers in this process, or in a file that processes share."""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import os
import struct
from collections.abc import Iterator, MutableSequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

MAX_PROCESSES = 64
"""Processes that may share the quotas of a key."""
MAX_SHARED_KEYS = 16_384
"""Keys that may share quotas; the file has a place for each."""
_DIGEST_BYTES = 16
_NUMBER_BYTES = 8
# Of each of two buckets its limit, its level and the time of the level.
_BUCKET_NUMBERS = 3
_NUMBERS = 2 * _BUCKET_NUMBERS + MAX_PROCESSES
_PLACE_BYTES = _DIGEST_BYTES + _NUMBERS * _NUMBER_BYTES


class KeyCounts:
    """The numbers of one key. Reads and writes under `lock` are atomic."""

    def __init__(
        self, numbers: MutableSequence[float] | memoryview[float], *, process: int = 0, file: int | None = None
    ) -> None:
        """Take the numbers, as many as `KeyCounts.new` has; `file`: descriptor for locks among processes."""
        self._numbers, self._process, self._file = numbers, process, file

    @classmethod
    def new(cls) -> KeyCounts:
        """Return numbers of this process alone."""
        return cls([0.0] * _NUMBERS)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other processes waiting, for the microseconds that a quota is looked at and changed."""
        if self._file is None:
            yield
            return
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def bucket(self, index: int) -> tuple[float, float, float]:
        """Return limit, level, and time of the level of a bucket; all are 0 before it was first used."""
        start = index * _BUCKET_NUMBERS
        limit, level, filled_at = self._numbers[start : start + _BUCKET_NUMBERS]
        return limit, level, filled_at

    def set_bucket(self, index: int, limit: float, level: float, filled_at: float) -> None:
        """Change a bucket."""
        start = index * _BUCKET_NUMBERS
        for offset, value in enumerate((limit, level, filled_at)):
            self._numbers[start + offset] = value

    @property
    def sentences(self) -> int:
        """Sentences in translation, of all processes."""
        return int(sum(self._numbers[2 * _BUCKET_NUMBERS :]))

    def add_sentences(self, count: int) -> None:
        """Count sentences that this process begins or, below 0, ends."""
        self._numbers[2 * _BUCKET_NUMBERS + self._process] += count


class QuotaCounts(Protocol):
    """The counts of all keys."""

    def of(self, key_id: str) -> KeyCounts:
        """Return the counts of a key."""


class OwnCounts:
    """Counts of a server that is one process."""

    def of(self, key_id: str) -> KeyCounts:  # noqa: ARG002 - each caller of a key keeps its own
        """Return new counts."""
        return KeyCounts.new()


class SharedCounts:
    """Counts of several processes in a file of fixed size, which each maps."""

    def __init__(self, path: Path, *, process: int) -> None:
        """Map the file, and make it if it is not there; `process` is the number of this process."""
        # A separate file description, because locks belong to it.
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.ftruncate(self._file, MAX_SHARED_KEYS * _PLACE_BYTES)
        self._map = mmap.mmap(self._file, MAX_SHARED_KEYS * _PLACE_BYTES)
        self._process = process

    def of(self, key_id: str) -> KeyCounts:
        """Return the counts of a key, in its place; the first process that asks takes a free one.

        Raises:
            OSError: All places are taken.
        """
        digest = hashlib.sha256(key_id.encode()).digest()[:_DIGEST_BYTES]
        [first] = struct.unpack_from("<Q", digest)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            for step in range(MAX_SHARED_KEYS):
                start = (first + step) % MAX_SHARED_KEYS * _PLACE_BYTES
                taken = self._map[start : start + _DIGEST_BYTES]
                if taken == digest or not any(taken):
                    self._map[start : start + _DIGEST_BYTES] = digest
                    return KeyCounts(self._numbers(start), process=self._process, file=self._file)
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)
        raise OSError(f"servers of several processes share the quotas of at most {MAX_SHARED_KEYS} API keys")

    def forget(self, process: int) -> None:
        """Free what a process that has ended had in translation."""
        for start in range(0, MAX_SHARED_KEYS * _PLACE_BYTES, _PLACE_BYTES):
            if any(self._map[start : start + _DIGEST_BYTES]):
                self._numbers(start)[2 * _BUCKET_NUMBERS + process] = 0.0

    def _numbers(self, start: int) -> memoryview[float]:
        numbers = memoryview(self._map)[start + _DIGEST_BYTES : start + _PLACE_BYTES]
        return numbers.cast("d")
