"""EPUB: the texts of its pages, of its tables of contents, and its title."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from xuanzang.documents.document import Document, DocumentError, MalformedError, ReadSettings, Unit
from xuanzang.documents.encoding import EncodedText
from xuanzang.documents.formats.archive import Archive, ArchiveDocument, Part
from xuanzang.documents.formats.html import declared_encoding, html_edits
from xuanzang.documents.formats.xml.parts import PartSettings, XmlPart
from xuanzang.documents.formats.xml.trees import Element, parsed, without_forbidden
from xuanzang.documents.formats.xml.vocabulary import Role, Vocabulary
from xuanzang.documents.splicing import SplicedDocument

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_PAGE = "application/xhtml+xml"
_CONTENTS = "application/x-dtbncx+xml"

VOCABULARY = Vocabulary(
    prefixes={"http://www.daisy.org/z3986/2005/ncx/": "ncx", "http://purl.org/dc/elements/1.1/": "dc"}
    | {"http://www.idpf.org/2007/opf": "opf"},
    paragraphs=frozenset(("ncx:text", "dc:title", "dc:description", "dc:subject")),
    attributes={"opf:reference": {"title": 0}},
    roles={},
    other=Role.BREAK,
    is_mixed=True,
    untouched=frozenset(("ncx:docAuthor",)),
)


def read(raw: bytes, settings: ReadSettings) -> Document:
    """Read an EPUB; see `Format`."""
    archive = Archive.read(raw, settings.limits, suffix=settings.suffix)
    depth = settings.limits.depth
    package = _package(archive, depth)
    items = dict(_items(archive, package, depth))
    _check_encryption(archive, {package, *items}, depth)
    part_settings = PartSettings(vocabulary=VOCABULARY, depth=depth, stays=_has_markup, with_document_type=True)
    parts: dict[str, Part] = {package: XmlPart(package, archive.files[package], part_settings)}
    for name, media_type in items.items():
        content = archive.files[name]
        try:
            is_page = media_type == _PAGE
            parts[name] = _Page(name, content, depth) if is_page else XmlPart(name, content, part_settings)
        except MalformedError as error:
            parts[name] = _Unread(name, content, str(error))
    return ArchiveDocument(archive, parts)


class _Unread:
    """A part that is not well formed, which stays."""

    def __init__(self, name: str, content: bytes, fault: str) -> None:
        self._content = content
        self.unwritten = (Unit(text="", where=name, fault=f"it has stayed as it is: {fault}"),)

    def units(self) -> Iterator[Unit]:
        """Yield nothing."""
        return iter(())

    def render(self, translations: Mapping[str, str]) -> bytes:  # noqa: ARG002 - the signature of `Part`
        """Return the part unchanged."""
        return self._content


class _Page:
    """A page, whose bytes between texts stay.

    Raises:
        MalformedError: It is no well-formed XHTML.
    """

    def __init__(self, name: str, content: bytes, depth: int) -> None:
        self._name, self._depth, self._content = name, depth, content
        self._fault = ""
        self._check(content)
        source = EncodedText.decode(content, declared_encoding(content))
        edits = html_edits(source.text, depth=depth, is_xml=True)
        self._document = SplicedDocument(source, edits, is_html=True, errors="xmlcharrefreplace")

    @property
    def unwritten(self) -> tuple[Unit, ...]:
        """Texts whose translations the last `render` could not write."""
        if self._fault:
            return (Unit(text="", where=self._name, fault=self._fault),)
        return tuple(Unit(text=unit.text, where=f"{self._name}, {unit.where}") for unit in self._document.unwritten)

    def units(self) -> Iterator[Unit]:
        """Yield the texts to translate."""
        return self._document.units()

    def render(self, translations: Mapping[str, str]) -> bytes:
        """Return the page with translations; unchanged, if it would be no XHTML with them."""
        allowed = {text: without_forbidden(translation) for text, translation in translations.items()}
        content = self._document.render(allowed)
        try:
            self._check(content)
        except MalformedError as error:
            self._fault = f"it has stayed as it is: its translation would be no XHTML: {error}"
            return self._content
        self._fault = ""
        return content

    def _check(self, content: bytes) -> None:
        parsed(self._name, content, depth=self._depth, with_document_type=True)


def _package(archive: Archive, depth: int) -> str:
    """Return the name of the package document."""
    if _CONTAINER in archive.files:
        for element in _root(archive, _CONTAINER, depth).iter("{*}rootfile"):
            name = element.get("full-path", "")
            if name in archive.files:
                return name
    raise DocumentError(f"no EPUB: {_CONTAINER} leads to no package document")


def _items(archive: Archive, package: str, depth: int) -> Iterator[tuple[str, str]]:
    """Yield the names and media types of the items of a package that have texts."""
    for element in _root(archive, package, depth).iter("{*}item"):
        media_type = element.get("media-type", "")
        name = _path(posixpath.dirname(package), element.get("href", ""))
        if media_type in (_PAGE, _CONTENTS) and name in archive.files:
            yield name, media_type


def _check_encryption(archive: Archive, names: set[str], depth: int) -> None:
    """Refuse a book whose texts are encrypted; fonts may be."""
    if _ENCRYPTION in archive.files:
        for element in _root(archive, _ENCRYPTION, depth).iter("{*}CipherReference"):
            name = _path("", element.get("URI", ""))
            if name in names:
                raise DocumentError(f"it is encrypted: {name} by {_ENCRYPTION}")


def _path(folder: str, reference: str) -> str:
    return posixpath.normpath(posixpath.join("/", folder, unquote(reference.partition("#")[0]))).lstrip("/")


def _has_markup(element: Element) -> bool:
    """Return whether the text of an element is HTML, as descriptions may be."""
    return not len(element) and "<" in (element.text or "")


def _root(archive: Archive, name: str, depth: int) -> Element:
    return parsed(name, archive.files[name], depth=depth, with_document_type=True).getroot()
