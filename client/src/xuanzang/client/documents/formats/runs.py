"""Blocks of markup: their text between one tag and the next is a run, and each run is translated by itself.

A block without inline markup is one run, so its sentences are translated as wholes. This is the only place that would
change if a block were sent with its markup.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from xuanzang.client.documents.splicing import Edit, flowing, replacement, stripped_span

_LEADING_SPACE = re.compile(r"(?:\s|&(?:nbsp|ensp|emsp|#160|#xa0|#xA0);)*")
_TRAILING_SPACES = ("&nbsp;", "&ensp;", "&emsp;", "&#160;", "&#xa0;", "&#xA0;")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A span of the source without markup."""

    start: int
    """Index of its first character."""
    end: int
    """Index after its last character."""


def run_edits(
    source: str, runs: Sequence[Run], *, read: Callable[[str], str], write: Callable[[str], str]
) -> Iterator[Edit]:
    """Yield the edits of a block; white space around a run stays, inside it becomes a space.

    Args:
        source: Text of the file.
        runs: Runs of the block, in their order.
        read: Function from the source of a run to its text, such as one that resolves entities.
        write: The reverse.
    """
    for run in runs:
        start, end = _inner(source, run.start, run.end)
        text = flowing(read(source[start:end])).strip()
        yield from replacement(start, end, text, lambda translation: write(flowing(translation)))


def _inner(source: str, start: int, end: int) -> tuple[int, int]:
    """Return a span without the white space at its ends, also where that is written as entities."""
    leading = _LEADING_SPACE.match(source, start, end)
    start, end = stripped_span(source, leading.end() if leading else start, end)
    while source.endswith(_TRAILING_SPACES, start, end):
        start, end = stripped_span(source, start, source.rindex("&", start, end))
    return start, end
