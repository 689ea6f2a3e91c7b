"""Spans of characters that the tokens of a text stand for."""

from __future__ import annotations

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

Span = tuple[int, int]
"""First character, and the one after the last."""


def filled(spans: Sequence[Span]) -> list[Span]:
    """Give tokens without characters, such as the first bytes of one, the span of the next token that has any.

    Args:
        spans: Spans in the order of the tokens.

    Returns:
        One span for each token.
    """
    result: list[Span] = []
    following: Span | None = None
    for span in reversed(spans):
        following = span if span[0] < span[1] or following is None else following
        result.append(following)
    return result[::-1]


def before_nfkc(text: str, spans: Sequence[Span]) -> list[Span]:
    """Map spans of the NFKC form of a text to the text itself.

    Args:
        text: Text before normalisation.
        spans: Spans of its NFKC form.

    Returns:
        Spans of the text.
    """
    if unicodedata.is_normalized("NFKC", text):
        return list(spans)
    # A character may melt into those before it, so each beginning of the text is normalised as a whole.
    lengths = [len(unicodedata.normalize("NFKC", text[:end])) for end in range(len(text) + 1)]
    return [(bisect_right(lengths, start) - 1, bisect_left(lengths, end)) for start, end in spans]


def moved(spans: Sequence[Span], offset: int) -> tuple[Span, ...]:
    """Return spans shifted by a number of characters."""
    return tuple((start + offset, end + offset) for start, end in spans)
