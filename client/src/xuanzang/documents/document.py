"""Documents of any format, and the limits of reading them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

IN_PROSE: tuple[str, ...] = ("addresses", "files", "identifiers", "braces", "templates", "variables")
"""Families of placeholders in texts for readers, fields of mail merge included."""
IN_MESSAGES: tuple[str, ...] = (*IN_PROSE, "printf", "icu", "tags", "handles", "code")
"""Families of placeholders in the messages of programs."""


class DocumentError(ValueError):
    """A file cannot be read as what its suffix says, is over a limit, or needs an argument."""


class MalformedError(DocumentError):
    """A file, or a part of it, breaks the grammar of its format."""


class UnwritableError(DocumentError):
    """A translation cannot be written in the place of its text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of a document; a larger one is refused before its texts are sent."""

    file_bytes: int = 64 * 1024 * 1024
    """Size of the file."""
    expanded_bytes: int = 256 * 1024 * 1024
    """Size of everything in a compressed file (.docx, .parquet), decompressed."""
    archive_entries: int = 10_000
    """Files in a .docx."""
    depth: int = 200
    """Elements or values inside one another, in XML and JSON."""
    units: int = 1_000_000
    """Texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSettings:
    """Options of a format."""

    suffix: str
    """Suffix in lower case with its dot, such as ".tsv"."""
    encoding: str | None = None
    """Name of the character encoding; None: the file's declaration, else UTF-8."""
    columns: tuple[str, ...] | None = None
    """Names of the columns or keys whose texts are translated; None: all, where the format allows it."""
    target_language: str | None = None
    """Code of the language of the translations, which catalogues name in their headers; None: unknown."""
    limits: Limits = Limits()
    """Limits of the document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One text to translate."""

    text: str
    """The text, without white space around it."""
    where: str
    """Place in the document, such as "line 12"."""
    is_ordered: bool = False
    """True if its placeholders must keep their order, because a program fills them in by their places."""
    fault: str = ""
    """Reason why it was not written; empty: no spelling of the format has its translation."""


class Document(Protocol):
    """A file that has been read."""

    placeholders: tuple[str, ...]
    """Families of the placeholders that translations carry, such as "printf"; docs/placeholders.md has all."""
    is_html: bool
    """True if texts are HTML, whose tags stand for the markup within them."""
    unwritten: tuple[Unit, ...]
    """Texts whose translations the last `render` could not write, so that they have stayed; an empty one stands for a
    part that cannot be read."""

    def units(self) -> Iterator[Unit]:
        """Yield the texts to translate, in the order of the file; equal ones as often as they occur."""

    def render(self, translations: Mapping[str, str]) -> bytes:
        """Return the file with translations.

        Args:
            translations: Translations by text; a text without one is unchanged.

        Raises:
            DocumentError: The file's encoding lacks a character of a translation.
        """


class Format(Protocol):
    """A module of `documents.formats`."""

    def read(self, raw: bytes, settings: ReadSettings) -> Document:
        """Read a file.

        Args:
            raw: Content of the file.
            settings: Suffix, encoding, columns and limits.

        Raises:
            DocumentError: It is not of this format, is over a limit, or needs an argument.
        """
