"""Key words of test sentences: what a translation must contain, in one wording or another."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

Alternatives = tuple[str, ...]
"""Wordings of one key word, such as ("movie", "film")."""


class KeyWords(NamedTuple):
    """Key words of some sentences, counted."""

    wanted: int
    """Key words of all sentences."""
    found: int
    """Key words of which an alternative is in the translation."""

    def __str__(self) -> str:
        """Return one line for people."""
        return f"key words found: {self.found / self.wanted:.1%} of {self.wanted}" if self.wanted else "no key words"


def parse_key_words(text: str) -> tuple[Alternatives, ...]:
    """Read key words separated by semicolons, their alternatives by slashes: `Beijing; movie/film`."""
    words = (tuple(filter(None, map(str.strip, word.split("/")))) for word in text.split(";"))
    return tuple(word for word in words if word)


def missing_key_words(key_words: Sequence[Alternatives], translation: str) -> list[Alternatives]:
    """Return the key words of which no alternative is in a translation, in any case, as whole words."""
    return [word for word in key_words if not any(_contains(translation, form) for form in word)]


def count_key_words(key_words: Sequence[Sequence[Alternatives]], translations: Sequence[str]) -> KeyWords:
    """Count the key words that translations contain.

    Args:
        translations: Translations, one per sentence.
    """
    missing = sum(len(missing_key_words(*item)) for item in zip(key_words, translations, strict=True))
    wanted = sum(map(len, key_words))
    return KeyWords(wanted, wanted - missing)


def _contains(text: str, form: str) -> bool:
    # Only ASCII letters and digits bound a word: Chinese is written without spaces.
    return re.search(rf"(?<![A-Za-z0-9]){re.escape(form)}(?![A-Za-z0-9])", text, re.IGNORECASE) is not None
