"""Records of finished shards; a shard is finished when its record exists and matches its part."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

from xuanzang.batch.planning import digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A row without a translation."""

    file: str
    """Name of the file of the input."""
    line: int
    """Its row there, 1 for the first."""
    reason: str
    text: str
    """The text, or the printable part of the row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Result of a shard, and its cost."""

    number: int
    rows: int
    characters: int
    """Characters of the texts that were translated."""
    seconds: float
    """Time from its beginning to its end; shards overlap."""
    core_seconds: float
    """Processor time of its worker since the shard before it, so that they add up to the whole."""
    sha256: str
    """Digest of its part."""
    failures: tuple[Failure, ...]


class Parts:
    """The folder of parts and records: each is written under another name and then takes its own at once."""

    def __init__(self, folder: Path) -> None:
        """Name the folder; it need not exist yet.

        Args:
            folder: Folder that all workers see.
        """
        self.folder = folder

    def part(self, number: int) -> Path:
        """Return the file of a shard's rows."""
        return self.folder / f"{number:08d}.part"

    def commit(self, record: Record) -> None:
        """Write the record of a shard whose part is written; from now on the shard is finished."""
        with replaced(self._record(record.number)) as file:
            file.write(json.dumps(asdict(record), ensure_ascii=False).encode())

    def record(self, number: int) -> Record:
        """Read the record of a finished shard."""
        content = json.loads(self._record(number).read_bytes())
        failures = tuple(Failure(**each) for each in content.pop("failures"))
        return Record(**content, failures=failures)

    def is_finished(self, number: int) -> bool:
        """Return whether a shard has a record, and the part that the record describes."""
        if not (self._record(number).exists() and self.part(number).exists()):
            return False
        return self.record(number).sha256 == digest(self.part(number))

    def has_records(self) -> bool:
        """Return whether any shard is finished."""
        return any(self.folder.glob("*.json"))

    def remove(self) -> None:
        """Delete parts and records, and nothing else that is in the folder."""
        for kind in ("part", "json"):
            for path in self.folder.glob(f"{'[0-9]' * 8}.{kind}"):
                path.unlink()

    def _record(self, number: int) -> Path:
        return self.folder / f"{number:08d}.json"


@contextmanager
def replaced(path: Path, *, folder: Path | None = None) -> Iterator[BinaryIO]:
    """Write a file that takes its name once it is whole and on the disk.

    Args:
        path: File to write or to replace.
        folder: Folder of the unfinished file, on the same file system; None for that of the file.
    """
    partial = (folder or path.parent) / f".{path.name}.{secrets.token_hex(8)}.partial"
    try:
        with partial.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
