"""Documents read, translated by functions, and compared."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Mapping
from html import escape, unescape
from typing import Any

from xuanzang.documents.opening import DocumentFile

Translate = Callable[[str], str]


def read(suffix: str, content: str | bytes, **settings: Any) -> Any:
    raw = content.encode() if isinstance(content, str) else content
    return DocumentFile.of(raw, suffix=suffix, **settings).document()


def texts(suffix: str, content: str | bytes, **settings: Any) -> list[str]:
    """Return the texts of a document; with tags, if it has inline markup."""
    return [unit.text for unit in read(suffix, content, **settings).units()]


def translated(suffix: str, content: str | bytes, translate: Translate = str.upper, **settings: Any) -> bytes:
    """Return a document with translations."""
    document = read(suffix, content, **settings)
    answer = in_markup(translate) if document.is_html else translate
    result: bytes = document.render({unit.text: answer(unit.text) for unit in document.units()})
    return result


def in_markup(translate: Translate) -> Translate:
    """Return a function that translates HTML stretch by stretch between its tags, but for code."""

    def answer(text: str) -> str:
        parts = re.split(r"(<code[^>]*>[^<]*</code>|<[^>]*>)", text)
        parts[::2] = [_stretch(part, translate) for part in parts[::2]]
        return "".join(parts)

    return answer


def _stretch(raw: str, translate: Translate) -> str:
    text = unescape(raw).strip()
    if not text:
        return raw
    before, _, after = unescape(raw).partition(text)
    return escape(before + translate(text) + after, quote=False)


_OFFICE = "http://schemas.openxmlformats.org"
_DECLARATION = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\r\n'


def word(body: str, **parts: str | bytes) -> bytes:
    """Return a .docx with a body, and further parts by their names without folder and suffix."""
    namespaces = {
        "w": f"{_OFFICE}/wordprocessingml/2006/main",
        "m": f"{_OFFICE}/officeDocument/2006/math",
        "r": f"{_OFFICE}/officeDocument/2006/relationships",
    }
    declared = " ".join(f'xmlns:{prefix}="{uri}"' for prefix, uri in namespaces.items())
    document = f"{_DECLARATION}<w:document {declared}><w:body>{body}</w:body></w:document>"
    return package(
        "word/document.xml", {"word/document.xml": document, **{f"word/{n}.xml": p for n, p in parts.items()}}
    )


def package(main: str, parts: Mapping[str, str | bytes]) -> bytes:
    """Return an archive of Office Open XML.

    Args:
        main: Name of the main part, to which a relationship leads.
        parts: Contents by names; a part has no relationships but those of `parts`.
    """
    start = {"[Content_Types].xml": "<Types/>", "_rels/.rels": relationships(officeDocument=main)}
    return archive({**start, **parts})


def archive(files: Mapping[str, str | bytes]) -> bytes:
    """Return a zip archive of files."""
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as writer:
        for name, content in files.items():
            writer.writestr(name, content)
    return output.getvalue()


def relationships(**targets: str) -> str:
    """Return a part of relationships, with targets by types; `header_2` is another header."""
    return (
        f'<Relationships xmlns="{_OFFICE}/package/2006/relationships">'
        + "".join(
            f'<Relationship Id="{name}" Type="{_OFFICE}/officeDocument/2006/relationships/{name.partition("_")[0]}" '
            f'Target="{target}"/>'
            for name, target in targets.items()
        )
        + "</Relationships>"
    )


def part(raw: bytes, name: str) -> str:
    """Return a text file of an archive."""
    with zipfile.ZipFile(io.BytesIO(raw)) as reader:
        return reader.read(name).decode()


def word_body(raw: bytes) -> str:
    """Return what is in the body of a .docx."""
    return part(raw, "word/document.xml").partition("<w:body>")[2].partition("</w:body>")[0]
