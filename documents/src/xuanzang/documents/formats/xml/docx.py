"""Word (.docx): the text of paragraphs, tables, headers, footers, notes and comments; everything else stays."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping

from xuanzang.documents.document import Document, DocumentError, Limits, ReadSettings, Unit
from xuanzang.documents.formats.xml.docx_part import part_edits
from xuanzang.documents.formats.xml.xml_tokens import decoded_xml
from xuanzang.documents.splicing import SplicedDocument

_TEXT_PARTS = re.compile(r"word/(?:document|header\d*|footer\d*|footnotes|endnotes|comments)\.xml")
_CHUNK = 1024 * 1024
_ENCRYPTED = 0x1


def read(raw: bytes, settings: ReadSettings) -> Document:
    """Read a Word document; see `Format`."""
    entries = _entries(raw, settings.limits)
    parts = {
        info.filename: _part(info.filename, content, settings)
        for info, content in entries
        if _TEXT_PARTS.fullmatch(info.filename)
    }
    if "word/document.xml" not in parts:
        raise DocumentError("no Word document: it has no word/document.xml")
    return _WordDocument(raw, entries, parts)


class _WordDocument:
    """A document of several parts in an archive."""

    guarded = False
    is_html = True

    def __init__(
        self, raw: bytes, entries: list[tuple[zipfile.ZipInfo, bytes]], parts: Mapping[str, SplicedDocument]
    ) -> None:
        self._raw = raw
        self._entries = entries
        self._parts = parts

    def units(self) -> Iterator[Unit]:
        """Yield the texts to translate with their parts."""
        for name, part in self._parts.items():
            for number, unit in enumerate(part.units(), start=1):
                yield Unit(text=unit.text, where=f"{name}, text {number}")

    def render(self, translations: Mapping[str, str]) -> bytes:
        """Return the archive with translations; if nothing changes, the same bytes."""
        changed = {name: part.render(translations) for name, part in self._parts.items()}
        if all(changed.get(info.filename, content) == content for info, content in self._entries):
            return self._raw
        output = io.BytesIO()
        with zipfile.ZipFile(output, "w") as archive:
            for info, content in self._entries:
                archive.writestr(info, changed.get(info.filename, content), compress_type=info.compress_type)
        return output.getvalue()


def _entries(raw: bytes, limits: Limits) -> list[tuple[zipfile.ZipInfo, bytes]]:
    """Return the files of an archive, decompressed no further than to the limit."""
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            infos = archive.infolist()
            if len(infos) > limits.archive_entries:
                raise DocumentError(f"more than {limits.archive_entries} files inside, the limit of archive_entries")
            if len({info.filename for info in infos}) < len(infos):
                raise DocumentError("it has two files of one name inside")
            entries, left = [], limits.expanded_bytes
            for info in infos:
                content = _entry(archive, info, left, limits)
                entries.append((info, content))
                left -= len(content)
            return entries
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise DocumentError(f"no readable .docx: {error}") from error


def _entry(archive: zipfile.ZipFile, info: zipfile.ZipInfo, left: int, limits: Limits) -> bytes:
    if info.flag_bits & _ENCRYPTED:
        raise DocumentError("it is encrypted")
    with archive.open(info) as file:
        chunks, size = [], 0
        while chunk := file.read(_CHUNK):
            size += len(chunk)
            if size > left:
                raise DocumentError(f"larger than {limits.expanded_bytes} bytes, the limit of expanded_bytes")
            chunks.append(chunk)
    return b"".join(chunks)


def _part(name: str, content: bytes, settings: ReadSettings) -> SplicedDocument:
    try:
        source = decoded_xml(content, None, depth=settings.limits.depth)
    except DocumentError as error:
        raise DocumentError(f"{name}: {error}") from error
    return SplicedDocument(source, list(part_edits(source.text)), is_html=True)
