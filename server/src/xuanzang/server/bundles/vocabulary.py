"""Read tables of pieces and their ids."""

from __future__ import annotations

import json
import re
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, overload

from typing_extensions import override

from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.files import read_limited

# The largest vocabularies have some 250,000 pieces, which take a few megabytes.
MAX_VOCABULARY_BYTES = 64 << 20

_NAMED = 3
# JSON can name halves of characters, which are no text.
_HALF = re.compile("[\ud800-\udfff]")


class Vocabulary(Sequence[str]):
    """Pieces ordered by id, in one block of memory: 250,000 strings of Python would take 17 MB instead of 4."""

    def __init__(self, pieces: Sequence[str] = ()) -> None:
        encoded = [piece.encode() for piece in pieces]
        self._content = b"".join(encoded)
        self._starts = array("I", accumulate(map(len, encoded), initial=0))

    @override
    def __len__(self) -> int:
        return len(self._starts) - 1

    @override
    def __iter__(self) -> Iterator[str]:
        return (self._content[start:end].decode() for start, end in pairwise(self._starts))

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    @override
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(f"there is no piece {index} among {len(self)}")
        return self._content[self._starts[index] : self._starts[index + 1]].decode()


def read_vocabulary(directory: Path, name: str, size: int) -> Vocabulary:
    """Read a table of the given number of distinct pieces; BundleError names every fault."""
    content = read_limited(directory, name, MAX_VOCABULARY_BYTES)
    try:
        pieces = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise BundleError(directory, [f"{name} is not JSON: {error}"]) from error
    faults = [f"{name} {fault}" for fault in _faults(pieces, size)]
    if faults:
        raise BundleError(directory, faults)
    return Vocabulary(pieces)


def _faults(pieces: Any, size: int) -> Iterator[str]:
    if not isinstance(pieces, list):
        yield "is not an array of pieces"
        return
    if len(pieces) != size:
        yield f"has {len(pieces)} pieces; the dimensions say {size}"
    # A joint check takes a quarter of the time of single ones.
    if not _are_texts(pieces):
        wrong = [index for index, piece in enumerate(pieces) if not _are_texts([piece])]
        yield f"has no text at index {_listed(wrong)}"
    texts = [piece for piece in pieces if isinstance(piece, str)]
    if len(set(texts)) < len(texts):
        repeated = [ascii(piece) for piece, count in Counter(texts).items() if count > 1]
        yield f"has more than once {_listed(repeated)}"


def _are_texts(pieces: Sequence[Any]) -> bool:
    return set(map(type, pieces)) <= {str} and not _HALF.search("".join(pieces))


def _listed(items: list[Any]) -> str:
    more = f" and {len(items) - _NAMED} more" if len(items) > _NAMED else ""
    return ", ".join(map(str, items[:_NAMED])) + more
