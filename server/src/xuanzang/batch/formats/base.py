"""The interface of a format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from xuanzang.batch.job import Shard


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Place of a shard in its file."""

    first_row: int
    rows: int
    offset: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of the input."""

    text: str
    """Text to translate; for a faulty row its printable part."""
    fault: str = ""
    """Reason why the row cannot be translated; empty if it can."""


class Format(ABC):
    """Reads the rows of shards and writes them with their translations."""

    @abstractmethod
    def cuts(self, path: Path, rows: int) -> Iterator[Cut]:
        """Cut a file into shards, the same ones each time.

        Args:
            path: File of the input.
            rows: Maximum rows of a shard.

        Raises:
            InputError: The file does not have the format.
        """

    @abstractmethod
    def read(self, shard: Shard) -> list[Row]:
        """Read the rows of a shard.

        Args:
            shard: Shard of a file that has not changed since it was cut.

        Raises:
            ChangedInputError: The file has fewer rows than it had.
        """

    @abstractmethod
    def write(self, shard: Shard, translations: Sequence[str | None], output: BinaryIO) -> None:
        """Write the rows of a shard, each with its translation.

        Args:
            translations: Translation of each row; None for rows without one.
            output: Open file.
        """

    @abstractmethod
    def join(self, parts: Iterable[Path], source: Path, output: BinaryIO) -> None:
        """Join what `write` wrote for the shards of one file.

        Args:
            parts: Files in the order of the shards.
            source: File of the input.
            output: Open file.
        """
