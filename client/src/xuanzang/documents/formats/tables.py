"""Tables as text (.csv, .tsv): the fields of named columns; all other bytes stay."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xuanzang.documents.document import Document, DocumentError, ReadSettings
from xuanzang.documents.encoding import EncodedText
from xuanzang.documents.splicing import Edit, SplicedDocument, parted, replacement

_QUOTED = r'"[^"]*(?:""[^"]*)*"'
# In a .tsv most writers know no quotation: an unclosed quotation mark is a character.
_QUOTED_TSV = r'"(?:[^"\t]*+(?:""[^"\t]*+)*+|[^"\r\n]*+(?:""[^"\r\n]*+)*+)"(?=[\t\r\n]|\Z)'
# A field that a reader could take for quoted: a quotation mark, and nothing after the closing one.
_SEEMS_QUOTED = r'"(?:[^"]++|"")*+"?'
_SHOWN = 50
"""Columns that a message lists."""
_SHOWN_CHARACTERS = 100
_DELIMITERS = ",;\t|"
# Excel reads the delimiter from such a line before the header.
_DECLARED = re.compile(r"(?i:\"?sep=)([^\w\s\"]|\t)\"?(?:\r\n?|\n)")
_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    start: int
    end: int
    raw: str
    is_quoted: bool

    @property
    def value(self) -> str:
        return self.raw[1:-1].replace('""', '"') if self.is_quoted else self.raw


def read(raw: bytes, settings: ReadSettings) -> Document:
    """Read a table whose first row names its columns; see `Format`."""
    source = EncodedText.decode(raw, settings.encoding)
    declared = _DECLARED.match(source.text) if settings.suffix != ".tsv" else None
    start = declared.end() if declared else 0
    found = declared[1] if declared else _delimiter(source.text)
    delimiter = "\t" if settings.suffix == ".tsv" else found
    rows = _rows(source.text, delimiter, start)
    header = [field.value for field in next(rows, [])]
    indices = chosen_columns(header, settings.columns)
    edits = [edit for row in rows for index in indices if index < len(row) for edit in _edits(row[index], delimiter)]
    return SplicedDocument(source, edits)


def chosen_columns(header: Sequence[str], columns: Sequence[str] | None) -> list[int]:
    """Return the indices of the named columns, in the order of the table.

    Args:
        columns: Names of those to translate.

    Raises:
        DocumentError: None is named, or one does not exist.
    """
    if not columns:
        raise DocumentError(f"name the columns to translate, of: {_listed(header)}")
    for column in columns:
        if column not in header:
            raise DocumentError(f"no column {column!r}; it has: {_listed(header)}")
    return [index for index, name in enumerate(header) if name in columns]


def _listed(header: Sequence[str]) -> str:
    names = [name if len(name) <= _SHOWN_CHARACTERS else f"{name[:_SHOWN_CHARACTERS]}…" for name in header[:_SHOWN]]
    return ", ".join(names) + (f" and {len(header) - _SHOWN} more" if len(header) > _SHOWN else "")


def _delimiter(text: str) -> str:
    """Return the delimiter of a .csv: the most frequent in the header, if several are equally so the first of these."""
    header = re.sub(_QUOTED, "", text[: 64 * 1024].partition("\n")[0])
    return max(_DELIMITERS, key=header.count)


def _rows(text: str, delimiter: str, at: int) -> Iterator[list[_Field]]:
    """Yield the rows of a table that begins at an index of the text."""
    is_tsv = delimiter == "\t"
    bare = r"[^\t\r\n]*+" if is_tsv else rf'[^"{re.escape(delimiter)}\r\n][^{re.escape(delimiter)}\r\n]*|'
    pattern = re.compile(rf"({_QUOTED_TSV if is_tsv else _QUOTED})|{bare}")
    row: list[_Field] = []
    line = 1 + text.count("\n", 0, at)
    while at < len(text) or row:
        match = pattern.match(text, at)
        assert match is not None  # noqa: S101 - it matches nothing, too
        row.append(_Field(start=at, end=match.end(), raw=match[0], is_quoted=match[1] is not None))
        line += match[0].count("\n")
        at = match.end()
        if text.startswith(delimiter, at):
            at += 1
            continue
        end = _LINE_END.match(text, at)
        if end is None and at < len(text):
            raise DocumentError(f"line {line}: a quotation mark is not closed, or something follows it")
        yield row
        row, at, line = [], end.end() if end else at, line + 1


def _edits(field: _Field, delimiter: str) -> Iterator[Edit]:
    value = field.value
    before, text, after = parted(value)

    def write(translation: str) -> str:
        content = before + translation + after
        special = any(each in content for each in (delimiter, "\r", "\n"))
        # A field of a .tsv whose quotation marks are characters gets one of the same kind.
        is_bare = delimiter == "\t" and '"' in field.raw and not re.fullmatch(_SEEMS_QUOTED, content)
        needs = special or ('"' in content and not is_bare)
        return '"' + content.replace('"', '""') + '"' if needs or field.is_quoted else content

    return replacement(field.start, field.end, text, write)
