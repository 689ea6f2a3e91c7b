"""Plain text (.txt): every line is a text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from xuanzang.documents.document import Document, ReadSettings
from xuanzang.documents.encoding import EncodedText
from xuanzang.documents.splicing import Edit, SplicedDocument, one_line, replacement, stripped_span

_LINE = re.compile(r"[^\r\n]+")


def read(raw: bytes, settings: ReadSettings) -> Document:
    """Read a text file; see `Format`."""
    source = EncodedText.decode(raw, settings.encoding)
    return SplicedDocument(source, list(_edits(source.text)))


def _edits(text: str) -> Iterator[Edit]:
    for line in _LINE.finditer(text):
        start, end = stripped_span(text, *line.span())
        yield from replacement(start, end, text[start:end], one_line)
