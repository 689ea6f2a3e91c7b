"""Texts that run in circles."""

from __future__ import annotations

import re

# Words or a part of one four times in a row, or one character ten times. The space lets the last word be without one.
_REPETITION = re.compile(r"(\S.{1,60}?)\1{3}|(\S)\2{9}", re.DOTALL)


def has_repetition(text: str) -> bool:
    """Return whether a part of a text follows itself three times over."""
    return _REPETITION.search(f"{text} ") is not None
