"""Where words begin and end: between letters and digits there is a boundary only in scripts without spaces."""

from __future__ import annotations

import re

# Scripts that put no spaces between words: Thai, Lao, Tibetan, Burmese, Khmer, kana, Bopomofo, Han.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u312f\u31a0-\u31bf\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]"
)


def joins(character: str) -> bool:
    """Return whether a character is part of a word that goes on with the next such character."""
    return (character.isalnum() or character == "_") and not _UNSPACED.match(character)


def is_boundary(text: str, position: int) -> bool:
    """Return whether no word of a text goes on over a position.

    Args:
        text: Any text.
        position: Index between its characters, 0 to its length.
    """
    return not (0 < position < len(text) and joins(text[position - 1]) and joins(text[position]))


def find_whole(text: str, phrase: str, start: int = 0) -> int:
    """Return where a phrase begins in a text, as whole words; -1 if nowhere.

    Args:
        text: Text to search.
        phrase: Phrase, not empty.
        start: First position that counts.
    """
    found = text.find(phrase, start)
    while found >= 0 and not (is_boundary(text, found) and is_boundary(text, found + len(phrase))):
        found = text.find(phrase, found + 1)
    return found
