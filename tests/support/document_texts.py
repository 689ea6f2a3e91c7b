"""Documents read, translated by functions, and compared."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable
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


def word(body: str, **parts: str | bytes) -> bytes:
    """Return a .docx with a body, and further parts by their names without folder and suffix."""
    namespace = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    declaration = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\r\n'
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr(
            "word/document.xml", f"{declaration}<w:document {namespace}><w:body>{body}</w:body></w:document>"
        )
        for name, part in parts.items():
            archive.writestr(f"word/{name}.xml", part)
    return output.getvalue()


def word_body(raw: bytes) -> str:
    """Return what is in the body of a .docx."""
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        content = archive.read("word/document.xml").decode()
    return content.partition("<w:body>")[2].partition("</w:body>")[0]
