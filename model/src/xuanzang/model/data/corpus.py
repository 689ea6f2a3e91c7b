"""Sentence pairs and the files that hold them."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TextIO


class Pair(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str


class CorpusError(ValueError):
    """A corpus file that cannot be read; the message names file and line."""


def read_pairs(path: Path) -> Iterator[Pair]:
    """Read `source<TAB>target` lines, plain or gzip; further columns are ignored.

    Raises:
        CorpusError: The file cannot be read, or a line has no tab or is not UTF-8.
    """
    for source, target, *_ in read_rows(path):
        yield Pair(source, target)


def read_rows(path: Path) -> Iterator[list[str]]:
    """Read the columns of each line, white space around them removed.

    Raises:
        CorpusError: The file cannot be read, or a line has no tab or is not UTF-8.
    """
    for number, line in enumerate(read_lines(path), start=1):
        columns = [column.strip() for column in line.split("\t")]
        if len(columns) < 2:
            raise CorpusError(f"{path}:{number}: expected source<TAB>target, found no tab")
        yield columns


def read_lines(path: Path) -> Iterator[str]:
    """Read the lines of a text, plain or gzip, without the white space around them.

    Raises:
        CorpusError: The file cannot be read or is not UTF-8.
    """
    try:
        with _open_text(path) as file:
            yield from (line.strip(" \r\n") for line in file)
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise CorpusError(f"{path}: {reason}") from error


def _open_text(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", newline="\n")
    return path.open(encoding="utf-8", newline="\n")
