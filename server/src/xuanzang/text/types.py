"""Values that this room takes and gives."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple


class ContentFormat(enum.Enum):
    """Format of content."""

    TEXT = "text"
    HTML = "html"
    """A page, or a part of one."""
    XML = "xml"
    """A document without document type, or a part of one."""


class TextKind(enum.Enum):
    """Treatment of a text, by its language."""

    __hash__ = object.__hash__

    SERVED = "served"
    """It is in one of the source languages."""
    UNCERTAIN = "uncertain"
    """Nothing tells its language for sure, so it may be in a source language."""
    COPIED = "copied"
    """It is in the target language already, or has no letters of a source language."""
    UNSERVED = "unserved"
    """It is in a language that is not translated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Reading of a text."""

    kind: TextKind
    language: str = ""
    """Code of its language, spelled as models do if they have it; empty if nothing tells it."""
    confidence: float = 0.0
    """Probability of that language, 0 to 1."""
    has_letters: bool = True
    scripts: frozenset[str] = frozenset()
    """Scripts of the letters of an uncertain text, or of its parts that were looked at."""
    is_doubtful: bool = False
    """True if an uncertain text is more likely in a language that is not translated: too few words to refuse it."""
    is_likely: bool = True
    """True if anything speaks for a source language; nothing does in a word such as "Merci", nor in some of English."""


class ProtectedPattern(enum.Enum):
    """Kind of text that is not translated."""

    URL = "url"
    EMAIL = "email"
    CODE = "code"
    PLACEHOLDER = "placeholder"
    NUMBER = "number"
    TAG = "tag"


class PlaceholderFamily(enum.Enum):
    """Family of placeholders: text for programs, which no translation changes."""

    PRINTF = "printf"
    """Conversions of printf and its dialects."""
    BRACES = "braces"
    """Fields and blocks in braces."""
    ICU = "icu"
    """ICU messages; the literal text of their branches is translated."""
    TEMPLATES = "templates"
    """Tags of templates."""
    TAGS = "tags"
    """Tags and entities in texts that are no markup as a whole."""
    VARIABLES = "variables"
    """Variables and escapes of message catalogues."""
    ADDRESSES = "addresses"
    """Addresses of pages and of mail."""
    FILES = "files"
    """Paths and names of files."""
    IDENTIFIERS = "identifiers"
    """UUIDs, hashes, Base64, and numbers of versions."""
    HANDLES = "handles"
    """Mentions and hashtags."""
    CODE = "code"
    """Text between backticks, and names such as max_size."""


class GlossaryOutcome(enum.Enum):
    """Outcome of a term that a sentence has."""

    HONOURED = "honoured"
    """The translation holds one of its targets."""
    NOT_WRITABLE = "not_writable"
    """The vocabulary of the model cannot write any of its targets."""
    NO_ROOM = "no_room"
    """There are too many terms for the sentence or for its length limit."""
    NOT_REACHED = "not_reached"
    """The search ended without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GlossaryMatch:
    """A term or protected text of a text, and what became of it."""

    source: str
    """The text in the source."""
    source_start: int
    """Its first character."""
    source_end: int
    target: str
    """Translation of it that the text's translation holds; empty if it holds none."""
    outcome: GlossaryOutcome
    pattern: ProtectedPattern | None
    """Pattern that found it; None for an entry."""
    target_start: int = -1
    """First character of `target` in the translation of its sentence; -1 if that holds none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenDetail:
    """One token of a hypothesis."""

    text: str
    """Text that it adds, spaces included; empty for the end token and for a part of a character."""
    score: float
    """Log-probability, nats."""
    source_start: int
    """First character of the source token that it attends to most."""
    source_end: int
    """Character after the last one; equal to source_start for source tokens without characters."""


CONTINUES = 1
"""Bit of a token's class: its text goes on with the word before it."""
OPENS = 2
"""Bit of a token's class: a word may begin after it without a space."""


class Variant(NamedTuple):
    """One way to write a phrase."""

    ids: tuple[int, ...]
    """Its tokens, at least one."""
    guards_start: bool
    """True if it may only follow a token that ends a word."""
    guards_end: bool
    """True if it counts only if its last word does not go on."""
