"""Directives of printf in flagged texts of catalogues: numbered during translation, so that they may change places.

A program fills "%s of %s" in by position. A translation with another order must number them ("%2$s/%1$s"), or it swaps
the values silently. So a text is sent with numbers, which are taken away again where the order has stayed.
"""

from __future__ import annotations

import re
from collections import Counter

_DIRECTIVE = re.compile(
    r"%#@\w+@|%(?:%|(?P<number>\d+\$)?(?P<rest>[-+ #0'I]*(?:\*|\d+)?(?:\.(?:\*|\d+)?)?(?:hh?|ll?|[qjzZtL])?"
    r"(?:[diouxXeEfFgGaAcCsSpnm@]|<PRI\w+>)))"
)
_NUMBERED = re.compile(r"%(\d+)\$")
_WITH_NUMBERS = frozenset(
    ("c-format", "objc-format", "php-format", "perl-format", "javascript-format", "tcl-format", "awk-format")
)
"""Flags of the languages whose directives may have numbers."""
_BY_PLACE = _WITH_NUMBERS | {"python-format", "lua-format", "sh-printf-format", "gcc-internal-format", "boost-format"}
"""Flags of the languages that fill directives in by their places."""


def directives(text: str, flags: frozenset[str]) -> Counter[str]:
    """Return the directives of a text with one of the flags; of another text none."""
    return Counter(_found(text)) if flags & _BY_PLACE else Counter()


def numbered(text: str, flags: frozenset[str]) -> str:
    """Return a text with numbers in its directives, if it has several and its language knows numbers."""
    if not _can_be_numbered(text, flags):
        return text
    numbers = iter(range(1, 1 + text.count("%")))
    return _DIRECTIVE.sub(lambda found: found[0] if found[0] == "%%" else f"%{next(numbers)}${found['rest']}", text)


def unnumbered(translation: str, source: str, flags: frozenset[str]) -> str:
    """Return a translation without the numbers that `numbered` gave its source, if they are in their order."""
    if not _can_be_numbered(source, flags):
        return translation
    found = [int(number) for number in _NUMBERED.findall(translation)]
    return _NUMBERED.sub("%", translation) if found == list(range(1, 1 + len(found))) else translation


def is_ordered(text: str, flags: frozenset[str]) -> bool:
    """Return whether the directives of a text must keep their order, because numbers cannot tell it."""
    return bool(flags & _BY_PLACE) and len(_found(text)) > 1 and not _can_be_numbered(text, flags)


def order_fault(text: str, translation: str) -> str | None:
    """Return the fault of a translation whose directives stand in another order than those of its text, or None."""
    return None if _found(text) == _found(translation) else "the translation changed the order of its placeholders"


def _found(text: str) -> list[str]:
    """Return the directives that take a value by their place."""
    return [found[0] for found in _DIRECTIVE.finditer(text) if found[0] != "%%" and not found["number"]]


def _can_be_numbered(text: str, flags: frozenset[str]) -> bool:
    found = _found(text)
    has_others = "$" in text or "%#@" in text or any("*" in each or "<" in each or each.endswith("m") for each in found)
    return bool(flags & _WITH_NUMBERS) and len(found) > 1 and not has_others
