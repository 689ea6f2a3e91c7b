"""White space with line breaks, which stands for one space or, between ideographs, for nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate

from xuanzang.server.engine.markup.document import Inline

# White space of HTML and XML, between what is none.
_SPACE = re.compile(r"(?<=[^ \t\n\f\r])[ \t\n\f\r]++(?=[^ \t\n\f\r])")
_WIDE = re.compile(r"[\u2e80-\u9fff\uf900-\ufaff\uff00-\uff60\U00020000-\U0003ffff]")


def without_line_breaks(text: str, inlines: Iterable[Inline]) -> tuple[str, tuple[Inline, ...], Sequence[int]]:
    """Join the lines of a block: they end where an editor has broken them, not where sentences do.

    Args:
        text: Text of a block.
        inlines: Elements in it.

    Returns:
        The text with a space for each line break, or nothing between ideographs (CSS Text 3, 4.1.3), the elements at
        their places in it, and the place of each of its characters in what it was made of.
    """
    inlines = tuple(inlines)
    spaces = [space for space in _SPACE.finditer(text) if "\n" in space.group() or "\r" in space.group()]
    if not spaces:
        return text, inlines, range(len(text))
    kept = [1] * len(text)
    characters = list(text)
    for space in spaces:
        start, end = space.span()
        is_none = _WIDE.match(text[start - 1]) and _WIDE.match(text[end])
        kept[start:end] = [0] * (end - start)
        if not is_none:
            kept[start], characters[start] = 1, " "
    places = [place for place, is_kept in enumerate(kept) if is_kept]
    joined = "".join(characters[place] for place in places)
    return joined, _moved(inlines, list(accumulate(kept, initial=0))), places


def _moved(inlines: Iterable[Inline], places: Sequence[int]) -> tuple[Inline, ...]:
    return tuple(
        replace(
            inline,
            start=places[inline.start],
            end=places[inline.end],
            children=_moved(inline.children, places),
        )
        for inline in inlines
    )
