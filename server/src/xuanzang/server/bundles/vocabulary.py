"""Read tables of pieces and their ids."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.files import read_limited

# The largest vocabularies have some 250,000 pieces, which take a few megabytes.
MAX_VOCABULARY_BYTES = 64 << 20

_NAMED = 3


def read_vocabulary(directory: Path, name: str, size: int) -> tuple[str, ...]:
    """Read a table.

    Args:
        directory: Folder of the bundle.
        name: Name of the file.
        size: Number of pieces according to the dimensions.

    Returns:
        The pieces, ordered by id.

    Raises:
        BundleError: The table cannot be read, or is not an array of so many different pieces; every fault is named.
    """
    content = read_limited(directory, name, MAX_VOCABULARY_BYTES)
    try:
        pieces = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise BundleError(directory, [f"{name} is not JSON: {error}"]) from error
    faults = [f"{name} {fault}" for fault in _faults(pieces, size)]
    if faults:
        raise BundleError(directory, faults)
    return tuple(pieces)


def _faults(pieces: Any, size: int) -> Iterator[str]:
    if not isinstance(pieces, list):
        yield "is not an array of pieces"
        return
    if len(pieces) != size:
        yield f"has {len(pieces)} pieces; the dimensions say {size}"
    wrong = [index for index, piece in enumerate(pieces) if not _is_piece(piece)]
    if wrong:
        yield f"has no text at index {_listed(wrong)}"
    counts = Counter(piece for piece in pieces if isinstance(piece, str))
    repeated = [ascii(piece) for piece, count in counts.items() if count > 1]
    if repeated:
        yield f"has more than once {_listed(repeated)}"


def _is_piece(piece: object) -> bool:
    # JSON can name halves of characters, which are no text.
    return isinstance(piece, str) and not any("\ud800" <= character <= "\udfff" for character in piece)


def _listed(items: list[Any]) -> str:
    more = f" and {len(items) - _NAMED} more" if len(items) > _NAMED else ""
    return ", ".join(map(str, items[:_NAMED])) + more
