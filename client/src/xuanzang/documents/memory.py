"""Translation memory: translations on disk, which a later run finds again."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

_APPLICATION_ID = 0x585A544D  # "XZTM"; says whose file it is
_BUSY_SECONDS = 30.0  # wait for another process that writes
_KEYS_PER_QUERY = 500
_SCHEMA = """\
CREATE TABLE translations (key BLOB PRIMARY KEY, text TEXT NOT NULL, used INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX by_use ON translations (used);
"""


class TranslationMemory:
    """Translations by the digest of the request, in an SQLite file that only its owner can read.

    Threads and processes may share the file. Source texts are not kept, only their digests; translations are.

    Args:
        path: File; it is created if it does not exist.
        max_bytes: Maximum size, at least 64 KiB; the translations not used for longest go first.

    Raises:
        OSError: The file cannot be created.
        ValueError: The file is something else, or damaged, or `max_bytes` is out of range.
    """

    def __init__(self, path: str | Path, *, max_bytes: int = 256 * 1024 * 1024) -> None:
        if max_bytes < 64 * 1024:
            raise ValueError(f"max_bytes must be at least 65536, not {max_bytes}")
        self._path = Path(path)
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
        self._database = sqlite3.connect(
            self._path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            self._prepare()
        except BaseException:
            self._database.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()

    def is_empty(self) -> bool:
        """Return whether nothing is kept.

        Raises:
            ValueError: The file is damaged, or another process writes for half a minute.
        """
        with self._transaction():
            return self._database.execute("SELECT 1 FROM translations LIMIT 1").fetchone() is None

    def find(self, keys: Sequence[bytes]) -> dict[bytes, str]:
        """Return the translations that are kept.

        Args:
            keys: Digests, any number.

        Raises:
            ValueError: The file is damaged, or another process writes for half a minute.
        """
        found: dict[bytes, str] = {}
        with self._transaction():
            for start in range(0, len(keys), _KEYS_PER_QUERY):
                some = keys[start : start + _KEYS_PER_QUERY]
                marks = ",".join("?" * len(some))
                chosen = f"WHERE key IN ({marks})"  # question marks only
                found.update(self._database.execute(f"SELECT key, text FROM translations {chosen}", some))  # noqa: S608
                self._database.execute(f"UPDATE translations SET used = ? {chosen}", (_now(), *some))  # noqa: S608
        return found

    def add(self, translations: Mapping[bytes, str]) -> None:
        """Keep translations, and drop those not used for longest if there are too many.

        Args:
            translations: Translations by digest.

        Raises:
            ValueError: The file is damaged, or another process writes for half a minute.
        """
        rows: Iterable[tuple[bytes, str, int]] = ((key, text, _now()) for key, text in translations.items())
        with self._transaction():
            self._database.executemany("INSERT OR REPLACE INTO translations VALUES (?, ?, ?)", rows)
            while self._size() > self._max_bytes and self._drop():
                pass

    def _drop(self) -> int:
        """Drop the tenth that was not used for longest; return how many these were."""
        count = self._database.execute("SELECT COUNT(*) FROM translations").fetchone()[0]
        oldest = "SELECT key FROM translations ORDER BY used LIMIT ?"
        statement = f"DELETE FROM translations WHERE key IN ({oldest})"  # noqa: S608 - a constant
        return self._database.execute(statement, (count // 10 + 1,)).rowcount

    def _size(self) -> int:
        pages, free, size = (self._pragma(name) for name in ("page_count", "freelist_count", "page_size"))
        return (pages - free) * size

    def _pragma(self, name: str) -> int:
        value: int = self._database.execute(f"PRAGMA {name}").fetchone()[0]
        return value

    def _prepare(self) -> None:
        """Create the table in a new file; check that another is one of ours."""
        with self._transaction():
            if not self._database.execute("SELECT COUNT(*) FROM sqlite_schema").fetchone()[0]:
                for statement in _SCHEMA.splitlines():
                    self._database.execute(statement)
                self._database.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            elif self._pragma("application_id") != _APPLICATION_ID:
                raise ValueError(f"{self._path} is no translation memory")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock:
            try:
                self._database.execute("BEGIN IMMEDIATE")
                with self._database:  # commits, or rolls back
                    yield
            except sqlite3.Error as error:
                raise ValueError(f"translation memory {self._path}: {error}") from error


def _now() -> int:
    return time.time_ns() // 1_000_000
