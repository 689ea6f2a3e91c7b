"""Word (.docx): the text of paragraphs, tables, headers, footers, notes and comments; everything else stays."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from xuanzang.client.documents.document import Document, DocumentError, Limits, ReadSettings, Unit
from xuanzang.client.documents.formats.xml_tokens import Token, decoded_xml, escaped, tokens, unescaped
from xuanzang.client.documents.splicing import Edit, SplicedDocument, flowing, parted, translatable

_TEXT_PARTS = re.compile(r"word/(?:document|header\d*|footer\d*|footnotes|endnotes|comments)\.xml")
# Between two texts of one run of words: whatever else comes is a reason to translate them apart.
_TRANSPARENT = ("r", "t", "proofErr", "bookmarkStart", "bookmarkEnd", "lastRenderedPageBreak")
_INVISIBLE = re.compile(r'<w:(?:lang|noProof|rtl|cs)\b[^>]*>|\s+w:(?:hint|rsid\w*)="[^"]*"|<w:rFonts\s*/>')
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
    return SplicedDocument(source, list(_Reader(source.text).edits()))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Text:
    """An element w:t: its tag, and the span of its characters."""

    tag: Token
    start: int
    end: int


class _Reader:
    """Walk over a part that joins neighbouring texts of the same looks, as Word often splits words."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._texts: list[_Text] = []
        self._looks: str | None = None
        """Properties of the texts collected; None: none are."""
        self._run_looks = ""
        self._properties: Token | None = None
        """Start of the properties under way, inside which nothing is text."""
        self._tag: Token | None = None

    def edits(self) -> Iterator[Edit]:
        """Yield an edit for each run of words."""
        for token in tokens(self._source):
            if self._properties is not None:
                self._go_on_with_properties(token)
            elif token.name in ("rPr", "pPr") and token.is_start:
                self._properties = None if token.is_end else token
            elif token.name == "t" and not (token.is_start and token.is_end):
                yield from self._text(token)
            elif token.name == "r" and token.is_start:
                self._run_looks = ""
            elif token.name and token.name not in _TRANSPARENT:
                yield from self._flush()
        yield from self._flush()

    def _go_on_with_properties(self, token: Token) -> None:
        opened = self._properties
        if opened is not None and token.is_end and not token.is_start and token.name == opened.name:
            if token.name == "rPr":
                self._run_looks = _INVISIBLE.sub("", self._source[opened.end : token.start])
            self._properties = None

    def _text(self, token: Token) -> Iterator[Edit]:
        if token.is_start:
            self._tag = token
            return
        if self._looks is not None and self._looks != self._run_looks:
            yield from self._flush()
        if self._tag is not None:
            self._looks = self._run_looks
            self._texts.append(_Text(tag=self._tag, start=self._tag.end, end=token.start))

    def _flush(self) -> Iterator[Edit]:
        texts, self._texts, self._looks = self._texts, [], None
        content = "".join(unescaped(self._source[each.start : each.end]) for each in texts)
        text = flowing(content).strip()
        if not translatable(text):
            return
        before, _, after = parted(content)
        # All goes into the first element; the others are emptied.
        rest = "".join(self._source[one.end : other.start] for one, other in pairwise(texts))

        def render(found: tuple[str, ...]) -> str:
            return _space_kept(texts[0].tag.raw) + escaped(before + flowing(found[0]) + after) + rest

        yield Edit(start=texts[0].tag.start, end=texts[-1].end, texts=(text,), render=render)


def _space_kept(tag: str) -> str:
    """Return a tag w:t that keeps the white space of its text."""
    return tag if "xml:space" in tag else tag.removesuffix(">") + ' xml:space="preserve">'
