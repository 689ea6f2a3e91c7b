"""Tokens of markup: tags, text and what is neither, which joined are the content."""

from __future__ import annotations

import enum
import html
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

_NONE: Mapping[str, str | None] = MappingProxyType({})
_REFERENCE = re.compile(r"&(?:#[0-9]+|#[xX][0-9a-fA-F]+|[A-Za-z][A-Za-z0-9]*);?")

# Python refuses to read thousands of digits.
_LONG_NUMBER = re.compile(r"(?<=&#)(?:([xX])([0-9a-fA-F]{20,}+)|([0-9]{20,}+))")


class MarkupError(ValueError):
    """The content cannot be read, or is over a limit; the message quotes none of it."""


class TokenKind(enum.Enum):
    """What a token of markup is."""

    TEXT = "text"
    OPEN = "open"
    CLOSE = "close"
    EMPTY = "empty"
    """Tag of an element without content."""
    OTHER = "other"
    """Comment, declaration, processing instruction, or a reference that is not known."""


class MarkupToken(NamedTuple):
    """One tag, or a stretch of text."""

    kind: TokenKind
    raw: str
    """Characters of the content."""
    name: str = ""
    """Name of a tag, in lower case in HTML."""
    attributes: Mapping[str, str | None] = _NONE
    """Attributes of a start tag or an empty element."""
    text: str = ""
    """Text that `raw` stands for; empty for tags."""
    is_block: bool = False
    """Whether a sentence ends at the tag."""


def unescaped(raw: str) -> str:
    """Return HTML with characters instead of its references, whatever their numbers are."""
    return html.unescape(_LONG_NUMBER.sub(_shortened, raw))


def _shortened(number: re.Match[str]) -> str:
    """Return the same number without zeros before it, or one that is too large, too."""
    return (number[1] or "") + ((number[2] or number[3]).lstrip("0")[:9] or "0")


def text_tokens(raw: str) -> Iterator[MarkupToken]:
    """Decode the character references of text.

    Args:
        raw: Characters between two tags.

    Yields:
        Text and references one by one. References that are not known are no text.
    """
    end = 0
    for reference in _REFERENCE.finditer(raw):
        found = reference.group()
        decoded = unescaped(found)
        if decoded == found and not found.endswith(";"):
            continue  # "AT&T"
        if end < reference.start():
            yield _text(raw[end : reference.start()])
        known = decoded not in ("", found)
        yield MarkupToken(TokenKind.TEXT if known else TokenKind.OTHER, found, text=decoded if known else "")
        end = reference.end()
    if end < len(raw):
        yield _text(raw[end:])


def _text(raw: str) -> MarkupToken:
    return MarkupToken(TokenKind.TEXT, raw, text=raw)
