"""Pairs of sentences: reading them from files and keeping the good ones."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TextIO

from xuanzang.model.tokenizer import Normalization, normalize


class Pair(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str


class CorpusError(ValueError):
    """A corpus file that cannot be read; the message names file and line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairFilter:
    """Limits outside which a pair is dropped."""

    max_characters: int = 1000
    """Most characters on either side."""
    max_length_ratio: float = 6.0
    """Most UTF-8 bytes of one side per byte of the other; short texts get ten bytes of grace."""

    def fault(self, pair: Pair) -> str | None:
        """Return why the pair is dropped, in one word or two, or None to keep it."""
        if not pair.source or not pair.target:
            return "empty"
        if max(len(pair.source), len(pair.target)) > self.max_characters:
            return "too long"
        if pair.source == pair.target:
            return "untranslated"
        source_bytes, target_bytes = (len(text.encode()) + 10 for text in pair)
        if max(source_bytes, target_bytes) > self.max_length_ratio * min(source_bytes, target_bytes):
            return "length ratio"
        return None


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
    try:
        with _open_text(path) as file:
            for number, line in enumerate(file, start=1):
                columns = [column.strip() for column in line.split("\t")]
                if len(columns) < 2:
                    raise CorpusError(f"{path}:{number}: expected source<TAB>target, found no tab")
                yield columns
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise CorpusError(f"{path}: {reason}") from error


def clean_pairs(
    pairs: Iterable[Pair], pair_filter: PairFilter, normalization: Normalization, seen: set[bytes], counts: Counter[str]
) -> Iterator[Pair]:
    """Normalise sources, drop bad pairs and repeats.

    Args:
        pairs: As read.
        pair_filter: What to drop.
        normalization: Applied to the source; the target stays as it is.
        seen: Digests of the pairs kept so far; grows.
        counts: Counts of "kept" and of every reason to drop; grows.
    """
    for raw in pairs:
        pair = Pair(normalize(raw.source, normalization), raw.target)
        digest = hashlib.blake2b("\t".join(pair).encode(), digest_size=12).digest()
        fault = "duplicate" if digest in seen else pair_filter.fault(pair)
        counts[fault or "kept"] += 1
        if fault is None:
            seen.add(digest)
            yield pair


def _open_text(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", newline="\n")
    return path.open(encoding="utf-8", newline="\n")
