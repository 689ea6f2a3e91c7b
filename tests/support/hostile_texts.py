"""Atoms of which hostile texts are made, and how the time for a text grows with its length."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

from document_texts import archive, package, relationships, word

from xuanzang.documents import Limits
from xuanzang.documents.opening import DocumentFile

_MAX_GROWTH = 2.4
ATOMS: tuple[str, ...] = tuple(json.loads((Path(__file__).parent / "texts" / "hostile_atoms.json").read_text()))
"""Pieces that mean something to some parser, alone or repeated."""

_HEAD = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
_PLURALS = 'msgid ""\nmsgstr "Plural-Forms: nplurals=3; plural=n;\\n"\n\n'
_FORMS = '#, c-format\nmsgid "a"\nmsgid_plural "{}"\nmsgstr[0] ""\n\n'
_XLIFF = "<xliff><file><body><trans-unit><source>{}</source></trans-unit></body></file></xliff>"
_RUN = "<w:p><w:r><w:t>{}</w:t></w:r></w:p>"
_MANY = "<w:p><w:r>{}<w:t>a</w:t></w:r></w:p>"
_LOOKS = "<w:p><w:r><w:rPr>{}</w:rPr><w:t>a</w:t></w:r></w:p>"


_STRING = '<resources><string name="a">{}</string></resources>'
_SHEETS = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"


def _workbook(cells: str, string: str = "a") -> bytes:
    """Return a .xlsx with the cells of a sheet and a shared string."""
    return package(
        "workbook.xml",
        {
            "workbook.xml": f"<workbook xmlns='{_SHEETS}'/>",
            "_rels/workbook.xml.rels": relationships(worksheet="s.xml", sharedStrings="t.xml"),
            "s.xml": f"<worksheet xmlns='{_SHEETS}'><sheetData><row>{cells}</row></sheetData></worksheet>",
            "t.xml": f"<sst xmlns='{_SHEETS}'><si><t>a {string}</t></si></sst>",
        },
    )


def _plain(text: str) -> str:
    return "".join(character for character in text if character >= " " or character in "\t\n\r")


def _letters(text: str) -> str:
    return text if text.isascii() and text.isalpha() else ""


def _lines(text: str) -> str:
    return f'"{_quoted(text[:9])}"\n' * (len(text) // 9)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")


def _xml(text: str) -> str:
    return escape(_plain(text))


_ANCHORS = (
    "<w:bookmarkStart w:id='1'/><w:commentRangeStart w:id='2'/><w:r><w:t>a </w:t></w:r><w:bookmarkEnd w:id='1'/>"
    "<w:ins><w:r><w:footnoteReference/></w:r></w:ins>"
)
_FIELDS = (
    "<w:r><w:fldChar w:fldCharType='begin'/><w:instrText>a</w:instrText><w:fldChar w:fldCharType='separate'/></w:r>"
    "<w:r><w:t>a</w:t></w:r>"
)
_SPACED = "<w:r><w:t xml:space='preserve'> {}  </w:t></w:r>"
_ODT = (
    "<o:d xmlns:o='urn:oasis:names:tc:opendocument:xmlns:office:1.0' "
    "xmlns:t='urn:oasis:names:tc:opendocument:xmlns:text:1.0'><o:body><o:text><t:p>{}</t:p></o:text></o:body></o:d>"
)
DOCUMENTS: dict[str, tuple[str, Callable[[str], str | bytes]]] = {
    "txt": (".txt", str),
    "md": (".md", str),
    "md paragraph": (".md", "a {}".format),
    "html": (".html", str),
    "html paragraph": (".html", "<p>a {} b</p>".format),
    "html tag": (".html", "<p title='{}'>a".format),
    "html code": (".html", "<p>a<code>{}".format),
    "html number": (".html", "<p title='&#{0};'>a&#{0};".format),
    "srt": (".srt", str),
    "srt cue": (".srt", "1\n0:0:1,0 --> 0:0:2,0\n{}\n\n".format),
    "ass": (".ass", "[Events]\nFormat: Start, Text\nDialogue: 0,{}".format),
    "vtt": (".vtt", "WEBVTT\n\n0:1.0 --> 0:2.0\n{}".format),
    "po": (".po", str),
    "po string": (".po", lambda text: f'{_HEAD}msgid "{_quoted(text)}"\nmsgstr ""\n'),
    "po lines": (
        ".po",
        lambda text: f'{_HEAD}msgid ""\n{_lines(text)}msgstr ""\n',
    ),
    "po plural": (".po", lambda text: _PLURALS + _FORMS.format(_quoted(text)) * 2),
    "json": (".json", str),
    "arb": (".arb", lambda text: json.dumps({"a": text})),
    "json string": (".json", json.dumps),
    "json list": (".json", lambda text: json.dumps([text[:9]] * (len(text) // 9))),
    "jsonl": (".jsonl", lambda text: f"{json.dumps(text[:9])}\n" * (len(text) // 9)),
    "csv": (".csv", "text\n{}".format),
    "tsv": (".tsv", "text\n{}".format),
    "csv field": (".csv", lambda text: 'text\n"' + text.replace('"', '""') + '"\n'),
    "csv header": (".csv", "text,{}\na\n".format),
    "xliff": (".xliff", _XLIFF.format),
    "xliff lines": (
        ".xliff",
        lambda text: _XLIFF.replace("<source", "<source xml:space='preserve'").format(_xml(text)),
    ),
    "xliff text": (".xliff", lambda text: _XLIFF.format(_xml(text))),
    "xliff attribute": (".xliff", lambda text: _XLIFF.format(f'a<g id="{_xml(text)}">b</g>')),
    "xliff name": (".xliff", lambda text: _XLIFF.format(f"a<g{_letters(text)}/>")),
    "android": (".xml", lambda text: _STRING.format(f"<b>a</b>{_xml(text)}")),
    "android text": (".xml", lambda text: _STRING.format(_xml(f"a {text}"))),
    "android section": (".xml", lambda text: _STRING.format(f"<![CDATA[a {_plain(text)}".replace("]]>", "") + "]]>")),
    "android tags": (
        ".xml",
        lambda text: _STRING.format("a" + "".join(f"<b{number}>b</b{number}>" for number in range(len(text) // 60))),
    ),
    "xlsx formula": (".xlsx", lambda text: _workbook(f"<c><f>{_xml(text)}</f></c>")),
    "xlsx strings": (".xlsx", lambda text: _workbook(f'<c><f>SEARCH("abc"{_xml(text)}</f></c>', _xml(text))),
    "docx": (".docx", lambda text: word(_RUN.format(text))),
    "docx text": (".docx", lambda text: word(_RUN.format(_xml(text)))),
    "docx runs": (".docx", lambda text: word(_RUN.format(_xml(text[:9])) * (len(text) // 9))),
    "docx properties": (".docx", lambda text: word(_MANY.format("<w:rPr/>" * (len(_letters(text)) // 8)))),
    "docx looks": (".docx", lambda text: word(_LOOKS.format("<w:b/> " * (len(text) // 7)))),
    "docx anchors": (".docx", lambda text: word(f"<w:p>{_ANCHORS * (len(text) // 150)}</w:p>")),
    "docx fields": (".docx", lambda text: word(f"<w:p>{_FIELDS * (len(text) // 150)}</w:p>")),
    "docx spaces": (".docx", lambda text: word(f"<w:p>{_SPACED.format(_xml(text[:9])) * (len(text) // 60)}</w:p>")),
    "odt": (".odt", lambda text: archive({"content.xml": _ODT.format(_xml(text))})),
    "odt spans": (
        ".odt",
        lambda text: archive({"content.xml": _ODT.format("<t:span>a</t:span><t:s/> " * (len(text) // 60))}),
    ),
    "html spaces": (".html", lambda text: "<p>" + "a&nbsp; b\xa0" * (len(text) // 30)),
    "html unclosed": (".html", lambda text: "<ul>" + "<li translate=no><b>a" * (len(text) // 30)),
    "html directives": (".html", lambda text: "{{ <% {% <?php a ?> {{{ b }} " * (len(text) // 30) + text),
}
"""Ways in which a text becomes a document: the suffix, and the function."""


def repeated(atom: str, size: int) -> str:
    """Return an atom, repeated to a number of characters."""
    return atom * (size // len(atom) + 1)


def document(name: str, text: str) -> bytes:
    """Return the content of a document that a text becomes in a way of DOCUMENTS."""
    content = DOCUMENTS[name][1](text)
    return content if isinstance(content, bytes) else content.encode()


def translate_document(suffix: str, raw: bytes) -> None:
    """Read a document and write it with other texts, or find that it is none."""
    columns = ("text",) if suffix in (".csv", ".tsv") else None
    try:
        document = DocumentFile.of(raw, suffix=suffix, columns=columns, limits=Limits()).document()
        document.render({unit.text: f"{unit.text}x" for unit in document.units()})
    except ValueError:
        pass


def superlinear(
    work: Callable[[Any], object], size: int, *, cheap: float, make: Callable[[str], Any] = str
) -> list[str]:
    """Return the atoms for which twice the text takes more than 2.4 times the CPU time in each of five tries.

    Four times the text must also take so much more than twice the text: a step at one length, such as where the heap
    gives memory back after each try, is no growth.

    Args:
        work: What is measured.
        cheap: Seconds that prove nothing: noise is of the same size.
        make: What a text becomes before it is worked on; of texts that become the same, one is tried.
    """
    atoms = {make(repeated(atom, 2 * size)): atom for atom in ATOMS}

    def grows(atom: str, size: int) -> bool:
        double = _seconds(work, make(repeated(atom, 2 * size)))
        return double > cheap and double > _MAX_GROWTH * _seconds(work, make(repeated(atom, size)))

    def grows_on(atom: str) -> bool:
        return all(grows(atom, length) for length in (size, 2 * size) for _ in range(5))

    gc.collect()
    gc.disable()  # its runs depend on what else there is
    try:
        return [atom for atom in atoms.values() if grows_on(atom)]
    finally:
        gc.enable()


def _seconds(work: Callable[[Any], object], made: Any) -> float:
    began = time.thread_time()  # threads that other tests have left count in the time of the process
    work(made)
    return time.thread_time() - began
