"""OpenDocument (.odt, .odp, .ods): the texts of content and of the headers and footers in styles."""

from __future__ import annotations

from lxml import etree

from xuanzang.documents.document import Document, DocumentError, ReadSettings
from xuanzang.documents.formats.archive import Archive, ArchiveDocument
from xuanzang.documents.formats.xml.parts import PartSettings, XmlPart
from xuanzang.documents.formats.xml.spreadsheets import NO_TEXTS, kept_texts
from xuanzang.documents.formats.xml.trees import Element, parsed
from xuanzang.documents.formats.xml.vocabulary import Role, Vocabulary

_OASIS = "urn:oasis:names:tc:opendocument:xmlns"
_PREFIXES = {
    **{f"{_OASIS}:{name}:1.0": name for name in ("office", "text", "table", "style", "presentation", "form", "meta")},
    f"{_OASIS}:drawing:1.0": "draw",
    f"{_OASIS}:svg-compatible:1.0": "svg",
    f"{_OASIS}:manifest:1.0": "manifest",
    "urn:org:documentfoundation:names:experimental:office:xmlns:loext:1.0": "loext",
}
_RANGES = ("bookmark", "reference-mark", "toc-mark", "alphabetical-index-mark", "user-index-mark", "change")
_OBJECTS = (
    *("text:note", "text:bookmark", "text:reference-mark", "text:toc-mark", "text:alphabetical-index-mark"),
    *("text:user-index-mark", "text:change", "text:ruby-text"),
)
"""Objects in a paragraph whose characters, if they have any, are not part of it."""
_KINDS = {".odt": "text", ".odp": "presentation", ".ods": "spreadsheet"}
_PARTS = ("content.xml", "styles.xml")

VOCABULARY = Vocabulary(
    prefixes=_PREFIXES,
    paragraphs=frozenset(
        (
            *("text:p", "text:h", "text:index-title-template", "svg:title", "svg:desc", "table:title", "table:desc"),
            *("presentation:header-decl", "presentation:footer-decl"),
        )
    ),
    roles={
        **dict.fromkeys(("text:span", "text:a", "text:meta", "text:ruby", "loext:content-control"), Role.INLINE),
        **dict.fromkeys(_OBJECTS, Role.TRAVELS),
        **dict.fromkeys(("text:tab", "text:line-break"), Role.BREAK),
        "text:s": Role.SPACE,
        "text:soft-page-break": Role.DROPPED,
        **{f"text:{name}-start": Role.RANGE_START for name in _RANGES},
        **{f"text:{name}-end": Role.RANGE_END for name in _RANGES},
        "office:annotation-end": Role.RANGE_END,
    },
    other=Role.TRAVELS,
    others={"text": Role.SHOWN},
    is_mixed=True,
    inner={"text:ruby": "text:ruby-base"},
    untouched=frozenset(
        (
            "text:tracked-changes",
            "table:tracked-changes",
            "office:meta",
            "office:scripts",
            "office:forms",
            "text:ruby-text",
        )
    ),
    attributes={
        # It takes precedence over the paragraphs of the cell, whose text it is.
        "table:table-cell": {"office:string-value": 0},
        "text:a": {"office:title": 0},
        **{f"table:{name}-message": {"table:title": 0} for name in ("help", "error")},
    },
    ranges={f"text:{name}-{end}": name for name in _RANGES for end in ("start", "end")},
    range_keys=("text:name", "text:id", "text:change-id"),
)


def read(raw: bytes, settings: ReadSettings) -> Document:
    """Read a document of OpenDocument; see `Format`."""
    archive = Archive.read(raw, settings.limits, suffix=settings.suffix)
    kind = _KINDS[settings.suffix]
    depth = settings.limits.depth
    _check(archive, depth)
    content = _root("content.xml", archive, depth)
    if content.find(f"{{*}}body/{{*}}{kind}") is None:
        raise DocumentError(f"no OpenDocument {kind}: content.xml has no <office:{kind}>")
    names = [name for name in _PARTS if name in archive.files]
    is_sheet = kind == "spreadsheet"
    kept = kept_texts(_root(name, archive, depth) for name in names) if is_sheet else NO_TEXTS
    part_settings = PartSettings(vocabulary=VOCABULARY, depth=depth, stays=_stays, kept=kept)
    return ArchiveDocument(archive, {name: XmlPart(name, archive.files[name], part_settings) for name in names})


def _check(archive: Archive, depth: int) -> None:
    """Refuse other archives and documents encrypted by OpenDocument's means."""
    if "content.xml" not in archive.files:
        raise DocumentError("no OpenDocument file: it has no content.xml")
    if "META-INF/manifest.xml" in archive.files:
        for entry in _root("META-INF/manifest.xml", archive, depth).iter("{*}encryption-data"):
            raise DocumentError(f"it is encrypted: <{etree.QName(entry).localname}> in META-INF/manifest.xml")


def _stays(element: Element) -> bool:
    """Return whether the text of an element is a prompt for authors, a formula's result, or a value."""
    name = VOCABULARY.name(element)
    if name == "draw:frame":
        return VOCABULARY.attribute(element, "presentation:placeholder") == "true"
    if name != "table:table-cell":
        return False
    value_type = VOCABULARY.attribute(element, "office:value-type")
    return value_type not in (None, "string") or VOCABULARY.attribute(element, "table:formula") is not None


def _root(name: str, archive: Archive, depth: int) -> Element:
    return parsed(name, archive.files[name], depth=depth).getroot()
