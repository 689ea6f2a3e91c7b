"""Names that users give and that become one part of a path."""

from __future__ import annotations

import re
from typing import Self

_PATTERN = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_SHOWN_CHARACTERS = 80


class PathName(str):
    """Name of a model, bundle or glossary that is safe as one part of a path.

    It has neither separators nor "..", is not hidden, and is no flag.

    Args:
        text: Text of a user, a file or another machine.

    Raises:
        ValueError: The text is no such name.
    """

    __slots__ = ()

    RULE = "1 to 63 of a-z, 0-9, '-', '_' and '.', the first a letter or digit"

    def __new__(cls, text: str) -> Self:
        """Check a text."""
        if not cls.fits(text):
            raise ValueError(f"a name must be {cls.RULE}, not {text[:_SHOWN_CHARACTERS]!r}")
        return super().__new__(cls, text)

    @staticmethod
    def fits(text: str) -> bool:
        """Return whether a text is such a name."""
        return _PATTERN.fullmatch(text) is not None
