"""Office Open XML (.docx, .pptx, .xlsx): the texts of the parts that the relationships lead to."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from urllib.parse import unquote

from lxml import etree

from xuanzang.documents.document import Document, DocumentError, ReadSettings
from xuanzang.documents.formats.archive import Archive, ArchiveDocument
from xuanzang.documents.formats.xml.parts import PartSettings, XmlPart
from xuanzang.documents.formats.xml.spreadsheets import NO_TEXTS, kept_texts
from xuanzang.documents.formats.xml.trees import Element, parsed
from xuanzang.documents.formats.xml.vocabulary import Role, Vocabulary

_OFFICE = "http://schemas.openxmlformats.org", "http://purl.oclc.org/ooxml"
_PREFIXES = {
    f"{_OFFICE[0]}/wordprocessingml/2006/main": "w",
    f"{_OFFICE[1]}/wordprocessingml/main": "w",
    f"{_OFFICE[0]}/presentationml/2006/main": "p",
    f"{_OFFICE[1]}/presentationml/main": "p",
    f"{_OFFICE[0]}/spreadsheetml/2006/main": "x",
    f"{_OFFICE[1]}/spreadsheetml/main": "x",
    f"{_OFFICE[0]}/drawingml/2006/main": "a",
    f"{_OFFICE[1]}/drawingml/main": "a",
    f"{_OFFICE[0]}/drawingml/2006/wordprocessingDrawing": "wp",
    f"{_OFFICE[1]}/drawingml/wordprocessingDrawing": "wp",
    f"{_OFFICE[0]}/drawingml/2006/spreadsheetDrawing": "xdr",
    f"{_OFFICE[1]}/drawingml/spreadsheetDrawing": "xdr",
    f"{_OFFICE[0]}/officeDocument/2006/math": "m",
    f"{_OFFICE[1]}/officeDocument/math": "m",
    f"{_OFFICE[0]}/markup-compatibility/2006": "mc",
    "http://schemas.microsoft.com/office/spreadsheetml/2018/threadedcomments": "xltc",
    "urn:schemas-microsoft-com:vml": "v",
    # Shapes and pictures in drawings of Word, in charts and in SmartArt.
    **dict.fromkeys(
        (
            *(f"{office}/{path}" for office in _OFFICE for path in ("drawingml/2006/picture", "drawingml/picture")),
            *(
                f"{office}/{path}"
                for office in _OFFICE
                for path in ("drawingml/2006/chartDrawing", "drawingml/chartDrawing")
            ),
            *(f"http://schemas.microsoft.com/office/word/2010/wordprocessing{each}" for each in ("Shape", "Group")),
            "http://schemas.microsoft.com/office/drawing/2008/diagram",
        ),
        "d",
    ),
}


def _named(role: Role, names: str) -> dict[str, Role]:
    return dict.fromkeys(names.split(), role)


_RANGES = (
    *("bookmark", "commentRange", "perm", "moveFromRange", "moveToRange", "customXmlInsRange", "customXmlDelRange"),
    *("customXmlMoveFromRange", "customXmlMoveToRange"),
)
VOCABULARY = Vocabulary(
    prefixes=_PREFIXES,
    paragraphs=frozenset(("w:p", "a:p", "x:si", "x:is", "x:c", "x:text", "p:cm", "xltc:threadedComment")),
    roles={
        **_named(Role.RUN, "w:r a:r x:r"),
        **_named(Role.TEXT, "w:t a:t x:t x:v p:text xltc:text"),
        **_named(Role.INLINE, "w:hyperlink w:ins w:moveTo w:smartTag w:customXml w:sdt w:fldSimple w:dir w:bdo w:ruby"),
        **_named(Role.HEAD, "w:pPr w:rPr w:smartTagPr w:customXmlPr a:pPr a:rPr x:rPr"),
        **_named(Role.HYPHEN, "w:noBreakHyphen"),
        **_named(
            Role.TRAVELS,
            "w:softHyphen w:footnoteReference w:endnoteReference w:commentReference w:annotationRef w:footnoteRef "
            "w:endnoteRef w:drawing w:pict w:object w:sym w:del w:moveFrom mc:AlternateContent w:contentPart",
        ),
        **_named(Role.SHOWN, "m:oMath m:oMathPara a:fld"),
        **_named(Role.DROPPED, "w:proofErr w:lastRenderedPageBreak x:rPh x:phoneticPr"),
        **{f"w:{name}Start": Role.RANGE_START for name in _RANGES},
        **{f"w:{name}End": Role.RANGE_END for name in _RANGES},
        **_named(Role.FIELD, "w:fldChar"),
        **_named(Role.INSTRUCTION, "w:instrText w:delInstrText"),
    },
    other=Role.BREAK,
    inner={"w:sdt": "w:sdtContent", "w:ruby": "w:rubyBase"},
    untouched=frozenset(("w:del", "w:moveFrom", "w:rt", "m:oMath", "m:oMathPara", "a:fld")),
    attributes={
        **{name: {"descr": 0, "title": 0} for name in ("wp:docPr", "p:cNvPr", "xdr:cNvPr", "d:cNvPr")},
        **{f"v:{name}": {"alt": 0} for name in ("shape", "group", "rect", "roundrect", "oval", "line", "image")},
        "v:textpath": {"string": 0},
        "w:tblCaption": {"w:val": 0},
        "w:tblDescription": {"w:val": 0},
        # Fields of forms; Word limits their texts.
        "w:helpText": {"w:val": 255},
        "w:statusText": {"w:val": 138},
        "w:listEntry": {"w:val": 50},
        **{name: {"tooltip": 0} for name in ("a:hlinkClick", "a:hlinkHover")},
        "w:hyperlink": {"w:tooltip": 0},
        "w:listItem": {"w:displayText": 0},
        "x:hyperlink": {"tooltip": 255},
        "x:dataValidation": {"promptTitle": 32, "prompt": 255, "errorTitle": 32, "error": 255},
    },
    ranges={f"w:{name}{end}": name for name in _RANGES for end in ("Start", "End")},
    range_keys=("w:id",),
    unseen=frozenset(
        (
            *("w:lang", "w:noProof", "w:rFonts@hint", "w:rPrChange@id", "a:rPr@lang", "a:rPr@altLang", "a:rPr@dirty"),
            *("a:rPr@err", "a:rPr@noProof", "a:rPr@smtClean", "a:rPr@smtId", "a:rPr@bmk"),
        )
    ),
    empty_unseen=frozenset(("w:rPr", "a:rPr", "x:rPr", "w:rFonts")),
)
"""Elements of all three: Word has `w`, drawings and slides `a`, tables `x`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """A kind of document."""

    title: str
    root: str
    """Name of the root of its main part."""
    followed: frozenset[str]
    """Types of relationships to follow: the last segment of their URI."""
    vocabulary: Vocabulary = VOCABULARY


_DRAWN = "chart chartEx chartUserShapes diagramData diagramDrawing"
_KINDS = {
    ".docx": _Kind(
        title="Word document",
        root="w:document",
        followed=frozenset(f"header footer footnotes endnotes comments {_DRAWN}".split()),
    ),
    ".pptx": _Kind(
        title="presentation",
        root="p:presentation",
        followed=frozenset(f"slide notesSlide slideLayout slideMaster comments {_DRAWN}".split()),
    ),
    ".xlsx": _Kind(
        title="workbook",
        root="x:workbook",
        followed=frozenset(
            (
                "worksheet chartsheet sharedStrings comments threadedComment drawing table pivotCacheDefinition "
                f"{_DRAWN}"
            ).split()
        ),
        vocabulary=replace(VOCABULARY, lines_break=True, longest=32_767),
    ),
}
_LAYOUTS = ("p:sldLayout", "p:sldMaster")
_OLE = b"\xd0\xcf\x11\xe0"


def read(raw: bytes, settings: ReadSettings) -> Document:
    """Read a document of Word, PowerPoint or Excel; see `Format`."""
    if raw.startswith(_OLE):
        raise DocumentError(f"it is encrypted, or of an older Office: save it as {settings.suffix} without a password")
    kind = _KINDS[settings.suffix]
    archive = Archive.read(raw, settings.limits, suffix=settings.suffix)
    depth = settings.limits.depth
    names = list(_reached(archive, kind, depth))
    part_settings = PartSettings(
        vocabulary=kind.vocabulary,
        depth=depth,
        stays=_stays,
        release=_release,
        kept=kept_texts(_root(name, archive, depth) for name in names) if kind.root == "x:workbook" else NO_TEXTS,
    )
    return ArchiveDocument(archive, {name: XmlPart(name, archive.files[name], part_settings) for name in names})


def _reached(archive: Archive, kind: _Kind, depth: int) -> Iterator[str]:
    """Yield the names of the parts that may hold texts, the main one first.

    Raises:
        DocumentError: There is no main part of this kind.
    """
    names = {name.lower(): name for name in archive.files}
    main = next(_targets(archive, names, "", frozenset(("officeDocument",)), depth), None)
    if main is None:
        raise DocumentError(f"no {kind.title}: no relationship leads to its main part")
    root = VOCABULARY.name(_root(main, archive, depth))
    if root != kind.root:
        raise DocumentError(f"no {kind.title}: the root of {main} is not <{kind.root}>")
    left, seen = [main], {main}
    while left:
        name = left.pop(0)
        yield name
        found = [each for each in _targets(archive, names, name, kind.followed, depth) if each not in seen]
        left += dict.fromkeys(found)
        seen.update(found)


def _targets(
    archive: Archive, names: Mapping[str, str], source: str, types: frozenset[str], depth: int
) -> Iterator[str]:
    """Yield the targets of relationships of some types.

    Args:
        names: Names of all parts by their names in lower case, as names of parts have no case.
        source: Name of the part that has the relationships; empty: the package.
    """
    folder, base = posixpath.split(source)
    relationships = names.get(posixpath.join(folder, "_rels", f"{base}.rels").lower())
    if relationships is None:
        return
    for element in _root(relationships, archive, depth).iter("{*}Relationship"):
        if element.get("Type", "").rpartition("/")[2] in types and element.get("TargetMode") != "External":
            path = unquote(element.get("Target", "").partition("#")[0])
            target = names.get(posixpath.normpath(posixpath.join("/", folder, path)).lstrip("/").lower())
            if target is not None:
                yield target


def _root(name: str, archive: Archive, depth: int) -> Element:
    return parsed(name, archive.files[name], depth=depth).getroot()


def _stays(element: Element) -> bool:
    """Return whether an element is a cell without a string of its own, a prompt of a layout, or names an AutoText."""
    name = VOCABULARY.name(element)
    if name == "x:c":
        return element.get("t") not in ("inlineStr", "str") or element.find("{*}f") is not None
    if name in ("w:helpText", "w:statusText"):
        return VOCABULARY.attribute(element, "w:type") == "autoText"
    if name != "p:sp" or VOCABULARY.name(element.getroottree().getroot()) not in _LAYOUTS:
        return False
    return element.find("{*}nvSpPr/{*}nvPr/{*}ph") is not None


def _release(element: Element) -> None:
    """Unbind content controls from properties and data: Word refills bound ones when it opens the file."""
    for control in (*element.iterancestors("{*}sdt"), *element.iter("{*}sdt")):
        for properties in control.findall("{*}sdtPr"):
            etree.strip_elements(properties, "{*}dataBinding", with_tail=False)
