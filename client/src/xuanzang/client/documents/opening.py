"""Files by their suffixes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import cast

from xuanzang.client.documents.document import Document, DocumentError, Format, Limits, ReadSettings

_FORMATS = {
    ".txt": "plain_text",
    ".md": "markdown",
    ".markdown": "markdown",
    ".html": "html",
    ".htm": "html",
    ".srt": "subtitles",
    ".vtt": "subtitles",
    ".po": "gettext",
    ".pot": "gettext",
    ".json": "json_values",
    ".jsonl": "json_values",
    ".ndjson": "json_values",
    ".csv": "tables",
    ".tsv": "tables",
    ".parquet": "parquet",
    ".xliff": "xml.xliff",
    ".xlf": "xml.xliff",
    ".docx": "xml.docx",
}
SUFFIXES = tuple(_FORMATS)
"""Suffixes of the files that can be translated."""

_EXTRA = ("markdown_it", "pyarrow")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenDocument:
    """A document and its name for messages."""

    document: Document
    name: str


def open_document(
    source: str | Path | bytes,
    *,
    suffix: str | None = None,
    encoding: str | None = None,
    columns: Sequence[str] | None = None,
    limits: Limits | None = None,
) -> OpenDocument:
    """Read a document.

    Args:
        source: Path, or the content of a file.
        suffix: Suffix that tells the format, such as ".md"; None: that of the path.
        encoding: Name of the character encoding; None: the one that the file declares, else UTF-8.
        columns: Names of the columns or keys whose texts are translated; None: all, where the format allows it.
        limits: Limits of the document; None: the default ones.

    Raises:
        DocumentError: The format is unknown or lacks its library, or the file is not of it, is over a limit, or needs
            an argument.
        OSError: The file cannot be read.
        TypeError: A lone name instead of a sequence of them.
    """
    if isinstance(columns, str):
        raise TypeError("columns must be a sequence of names, not a str")
    limits = limits or Limits()
    name = "the document" if isinstance(source, bytes) else str(source)
    known = (suffix or ("" if isinstance(source, bytes) else Path(source).suffix)).lower()
    settings = ReadSettings(
        suffix=known, encoding=encoding, columns=None if columns is None else tuple(columns), limits=limits
    )
    try:
        document = _format(known).read(_content(source, limits.file_bytes), settings)
        _count(document, limits.units)
    except DocumentError as error:
        raise DocumentError(f"{name}: {error}") from error
    return OpenDocument(document=document, name=name)


def _format(suffix: str) -> Format:
    if suffix not in _FORMATS:
        raise DocumentError(f"no format has the suffix {suffix!r}; known: {' '.join(SUFFIXES)}")
    try:
        return cast("Format", import_module(f"xuanzang.client.documents.formats.{_FORMATS[suffix]}"))
    except ModuleNotFoundError as error:
        if error.name not in _EXTRA:
            raise
        message = f"{suffix} needs {error.name}, of the client's extra `documents`: pip install -e 'client[documents]'"
        raise DocumentError(message) from error


def _content(source: str | Path | bytes, limit: int) -> bytes:
    if isinstance(source, bytes):
        content = source
    else:
        with Path(source).open("rb") as file:
            content = file.read(limit + 1)
    if len(content) > limit:
        raise DocumentError(f"larger than {limit} bytes, the limit of file_bytes")
    return content


def _count(document: Document, limit: int) -> None:
    for number, _ in enumerate(document.units(), start=1):
        if number > limit:
            raise DocumentError(f"more than {limit} texts, the limit of units")
