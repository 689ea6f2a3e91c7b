"""A file of an archive that is XML: the texts of its paragraphs and attributes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from xuanzang.documents.document import Unit
from xuanzang.documents.formats.blocks import markup_text
from xuanzang.documents.formats.html_tokens import unescaped
from xuanzang.documents.formats.xml.paragraphs import Paragraph
from xuanzang.documents.formats.xml.spreadsheets import NO_TEXTS, KeptTexts
from xuanzang.documents.formats.xml.trees import Element, parsed, serialized, without_forbidden
from xuanzang.documents.formats.xml.vocabulary import Vocabulary
from xuanzang.documents.splicing import translatable

_FILE_NAME = re.compile(r"\S+\.\w{1,5}|\S*[\\/]\S*")

Stays = Callable[[Element], bool]
"""Predicate for elements whose paragraphs are left alone."""
Release = Callable[[Element], None]
"""Removes what would let an application overwrite an element's translation, around the element and within it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartSettings:
    """Settings shared by the parts of a document."""

    vocabulary: Vocabulary
    depth: int
    """Limit of elements inside one another."""
    stays: Stays = lambda _: False
    release: Release = lambda _: None
    kept: KeptTexts = NO_TEXTS
    """Texts to leave alone."""
    with_document_type: bool = False
    """True if a document type without declarations is accepted."""


class XmlPart:
    """A part; see `Part`.

    Args:
        name: Name for messages.

    Raises:
        DocumentError: It is not well formed, has a document type, or is nested too deep.
    """

    def __init__(self, name: str, content: bytes, settings: PartSettings) -> None:
        self._name, self._content, self._settings = name, content, settings
        self._opened: _Opened | None = _Opened(name, content, settings)
        self._texts = list(self._opened.texts())
        self.unwritten: tuple[Unit, ...] = ()
        if not self._texts:
            self._opened = None

    def units(self) -> Iterator[Unit]:
        """Yield the texts to translate."""
        return (Unit(text=text, where=self._name) for text in self._texts)

    def render(self, translations: Mapping[str, str]) -> bytes:
        """Return the part with translations; the same bytes, if nothing changes."""
        if not self._texts:
            return self._content
        opened = self._opened or _Opened(self._name, self._content, self._settings)
        self._opened = None
        written = opened.render(translations)
        self.unwritten = tuple(Unit(text=text, where=self._name) for text in opened.unwritten())
        return written or self._content


class _Opened:
    """A part as a tree, which can be changed once."""

    def __init__(self, name: str, content: bytes, settings: PartSettings) -> None:
        self._tree = parsed(name, content, depth=settings.depth, with_document_type=settings.with_document_type)
        self._settings = settings
        self._holders = list(self._found())

    def texts(self) -> Iterator[str]:
        """Yield the texts to translate."""
        for holder in self._holders:
            yield from holder.texts()

    def render(self, translations: Mapping[str, str]) -> bytes | None:
        """Return the part with translations; None: nothing changes."""
        # A paragraph copies its runs, with the attributes of their properties.
        attributes_first = sorted(self._holders, key=lambda holder: isinstance(holder, Paragraph))
        changed = [holder for holder in attributes_first if holder.render(translations)]
        for holder in changed:
            self._settings.release(holder.element)
        return serialized(self._tree) if changed else None

    def unwritten(self) -> Iterator[str]:
        """Yield the texts whose translations `render` could not write."""
        for holder in self._holders:
            yield from holder.unwritten

    def _found(self) -> Iterator[Paragraph | _Attribute]:
        """Yield paragraphs and attributes with texts, including paragraphs nested in objects of other paragraphs."""
        settings, vocabulary = self._settings, self._settings.vocabulary
        within = [iter((self._tree.getroot(),))]
        while within:
            element = next(within[-1], None)
            if element is None:
                within.pop()
                continue
            name = vocabulary.name(element)
            if not name or name in vocabulary.untouched or settings.stays(element):
                continue
            for attribute, longest in vocabulary.attributes.get(name, {}).items():
                text = (vocabulary.attribute(element, attribute) or "").strip()
                is_kept = _FILE_NAME.fullmatch(text) or text in settings.kept
                if translatable(text) and not is_kept:
                    yield _Attribute(element, vocabulary.attribute_key(element, attribute), longest)
            if name in vocabulary.paragraphs and (len(element) or element.text):
                paragraph = Paragraph(vocabulary, element, settings.kept)
                if paragraph.has_texts:
                    yield paragraph
            if len(element):
                within.append(iter(element))


class _Attribute:
    """An attribute with text for readers.

    Args:
        longest: Maximum number of its characters; 0: unlimited.
    """

    def __init__(self, element: Element, name: str, longest: int) -> None:
        self.element, self._name, self._longest = element, name, longest
        self._text = markup_text(element.get(name, "").strip())
        self.unwritten: tuple[str, ...] = ()

    def texts(self) -> Iterator[str]:
        """Yield its text."""
        yield self._text

    def render(self, translations: Mapping[str, str]) -> bool:
        """Put the translation in; return whether anything is changed."""
        found = translations.get(self._text, self._text)
        if found == self._text:
            return False
        value = without_forbidden(unescaped(found))
        if self._longest and len(value) > self._longest:
            self.unwritten = (self._text,)
            return False
        self.element.set(self._name, value)
        return True
