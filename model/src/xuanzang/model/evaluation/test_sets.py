"""Test sets: held-out pairs, their groups, and the key words that a translation must contain."""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from xuanzang.model.data.corpus import CorpusError, read_rows

Alternatives = tuple[str, ...]
"""Wordings of one key word, such as ("movie", "film")."""


class KeyWords(NamedTuple):
    """Key words of some sentences, counted."""

    wanted: int
    """Key words of all sentences."""
    found: int
    """Key words with an alternative in the translation."""

    def __str__(self) -> str:
        """Return one line for people."""
        return f"key words found: {self.found / self.wanted:.1%} of {self.wanted}" if self.wanted else "no key words"


def parse_key_words(text: str) -> tuple[Alternatives, ...]:
    """Read key words separated by semicolons, their alternatives by slashes: `Beijing; movie/film`."""
    words = (tuple(filter(None, map(str.strip, word.split("/")))) for word in text.split(";"))
    return tuple(word for word in words if word)


def missing_key_words(key_words: Sequence[Alternatives], translation: str) -> list[Alternatives]:
    """Return the key words without an alternative in a translation, in any case, as whole words."""
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


class HeldOutPair(NamedTuple):
    """A line of a test set."""

    source: str
    target: str
    """The reference."""
    group: str
    """Corpus or domain of the pair; empty if the test set has no groups."""
    key_words: tuple[Alternatives, ...] = ()
    """Words that the translation must contain."""


def read_test_set(path: Path, limit: int | None = None, groups: Path | None = None) -> list[HeldOutPair]:
    """Read `source<TAB>target` lines; a third column names a group, a fourth has key words as `parse_key_words` reads.

    Args:
        path: File, plain or .gz.
        limit: Number of lines to read, if not all.
        groups: TOML file that gathers groups under other names, such as `law = ["tw_laws", "law_titles"]`.

    Raises:
        CorpusError: A file is missing or malformed, a side of a pair or all of the file is empty, or a group is
            gathered twice.
    """
    gathered = _read_groups(groups) if groups else {}
    pairs = []
    for number, (source, target, *more) in enumerate(itertools.islice(read_rows(path), limit), start=1):
        if not (source and target):
            raise CorpusError(f"{path}:{number}: a side is empty")
        group = more[0] if more else ""
        key_words = parse_key_words(more[1]) if len(more) > 1 else ()
        pairs.append(HeldOutPair(source, target, gathered.get(group, group), key_words))
    if not pairs:
        raise CorpusError(f"{path} is empty")
    return pairs


def _read_groups(path: Path) -> dict[str, str]:
    """Return the name under which each group is gathered."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CorpusError(f"{path}: {error}") from error
    gathered: dict[str, str] = {}
    for name, members in table.items():
        for member in members:
            if gathered.setdefault(member, name) != name:
                raise CorpusError(f"{path}: {member} is in {gathered[member]} and in {name}")
    return gathered
