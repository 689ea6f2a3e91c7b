"""Sentences of more tokens than the model takes: cut where a reader would pause, or else where they must be."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence

from xuanzang.server.engine.text.sentences import set_space_apart

Count = Callable[[str], int]
"""Counter of the source tokens of a stretch of text."""

# Where a sentence is cut, best first: after commas, at white space, between scripts.
_CLAUSES = re.compile(r".*?(?:[，、]|,(?!\d))+|.+", re.DOTALL)
_WORDS = re.compile(r"\S+\s*|\s+")
_SCRIPTS = re.compile(r"[\x00-\x7f]+|[^\x00-\x7f]+")
_PAUSES = frozenset("，、,")
# A character has fewer marks in every script; text made to have more is cut among them.
_MAX_MARKS = 16


def split_long_sentence(sentence: str, count: Count, max_tokens: int) -> list[str]:
    """Cut a sentence that is too long at commas, else at white space, else between scripts, else anywhere.

    A stretch of ASCII without white space, such as an encoded file or the address of a page, stays whole: a part of it
    means nothing.

    Args:
        sentence: Sentence without white space at its ends.
        count: Counter of tokens.
        max_tokens: Maximum source tokens of a stretch.

    Returns:
        White space and stretches; joined they are `sentence`. None is too long but those of ASCII alone and single
        characters with marks.
    """
    atoms = _atoms(sentence, (_CLAUSES, _WORDS, _SCRIPTS), count, max_tokens)
    return _packed([part for atom in atoms for part in _even_parts(atom, count, max_tokens)], count, max_tokens)


def split_at_pauses(sentence: str, count: Count, max_tokens: int) -> list[str]:
    """Cut a sentence that is too long at commas, else at white space.

    Args:
        sentence: Sentence without white space at its ends.
        count: Counter of tokens.
        max_tokens: Maximum source tokens of a stretch.

    Returns:
        White space and stretches; joined they are `sentence`. A stretch that cannot be cut may still be too long.
    """
    return _packed(_atoms(sentence, (_CLAUSES, _WORDS), count, max_tokens), count, max_tokens)


def is_forced_cut(left: str, right: str) -> bool:
    """Return whether a reader would not pause between two neighbouring parts of a sentence."""
    return not (left[-1].isspace() or left[-1] in _PAUSES or right[0].isspace())


def _atoms(sentence: str, places: Iterable[re.Pattern[str]], count: Count, max_tokens: int) -> list[str]:
    """Cut what is too long in ever worse places."""
    atoms = [sentence]
    for place in places:
        atoms = [part for atom in atoms for part in ([atom] if count(atom) <= max_tokens else place.findall(atom))]
    return atoms


def _even_parts(text: str, count: Count, max_tokens: int) -> list[str]:
    """Cut text of one script into parts of about the same number of characters."""
    tokens = count(text)
    if tokens <= max_tokens or text.isascii() or len(text) == 1:
        return [text]
    number = min(len(text), -(-tokens // max_tokens))
    places = [0, *(_before_marks(text, len(text) * part // number) for part in range(1, number)), len(text)]
    parts = [text[start:end] for start, end in itertools.pairwise(places) if start < end]
    return parts if len(parts) == 1 else [atom for part in parts for atom in _even_parts(part, count, max_tokens)]


def _before_marks(text: str, place: int) -> int:
    """Return the place, moved behind the marks of the character before it."""
    marks = itertools.takewhile(
        lambda mark: unicodedata.category(mark) in ("Mn", "Mc", "Me", "Cf"), text[place : place + _MAX_MARKS]
    )
    return place + sum(1 for _ in marks)


def _packed(atoms: Sequence[str], count: Count, max_tokens: int) -> list[str]:
    """Join neighbours into few stretches; each atom is counted once, so that the cost is linear in the text."""
    stretches: list[list[str]] = []
    size = max_tokens + 1
    for atom in atoms:
        tokens = count(atom)
        if size + tokens > max_tokens:
            stretches.append([])
            size = 0
        stretches[-1].append(atom)
        size += tokens
    texts = [text for stretch in stretches for text in _halve_until_short(stretch, count, max_tokens)]
    return [part for text in texts for part in set_space_apart(text)]


def _halve_until_short(atoms: Sequence[str], count: Count, max_tokens: int) -> list[str]:
    # Joined atoms have, rarely, more tokens than the sum of theirs.
    text = "".join(atoms)
    if len(atoms) == 1 or count(text) <= max_tokens:
        return [text]
    middle = len(atoms) // 2
    halves = (atoms[:middle], atoms[middle:])
    return [part for half in halves for part in _halve_until_short(half, count, max_tokens)]
