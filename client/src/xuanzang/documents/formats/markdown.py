"""Markdown: the text of paragraphs, headings, list items and table cells, around whose words markup stays."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pyromark import Options, events_with_range, reference_definitions
from pyromark.event import Range

from xuanzang.documents.document import Document, ReadSettings
from xuanzang.documents.encoding import EncodedText
from xuanzang.documents.formats.blocks import Kind, Piece, block_edits
from xuanzang.documents.formats.html import html_edits
from xuanzang.documents.formats.html_tokens import VOID
from xuanzang.documents.splicing import Edit, SplicedDocument, flowing

_OPTIONS = Options.ENABLE_TABLES | Options.ENABLE_STRIKETHROUGH | Options.ENABLE_TASKLISTS
_FRONT_MATTER = re.compile(r"(---|\+\+\+)[ \t]*\r?\n.*?^\1[ \t]*\r?$", re.DOTALL | re.MULTILINE)
_SPECIAL = re.compile(r"[\\`*\[\]<>|~]|(?<!\w)_|_(?!\w)|&(?=#?\w+;)")
_BLOCK_START = re.compile(r"^(?:(?=[#+=-])|(\d+)(?=[.)]))")
_HTML_TAGS: Mapping[str, str] = {"Emphasis": "em", "Strong": "strong", "Strikethrough": "s"}
_ADDRESSES = ("Autolink", "Email")
_LEFT = ("CodeBlock", "HtmlBlock")
"""Blocks without words of their own."""
_TAG = re.compile(r"<(/?)([A-Za-z][\w-]*+)[^>]*+>")
# The lines of a quotation begin with marks, and a line that goes on within a paragraph begins with no others.
_LINE_BREAK = re.compile(r"(?:\r\n?|\n)(?:[ \t]*+>)*+[ \t]*+")


def read(raw: bytes, settings: ReadSettings) -> Document:
    """Read a Markdown file; see `Format`."""
    source = EncodedText.decode(raw, settings.encoding)
    return SplicedDocument(source, list(_Reader(source.text, settings.limits.depth).edits()), is_html=True)


class _Places:
    """Indices of characters by those of bytes; cheap for neighbours."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._byte = self._character = 0

    def __call__(self, byte: int) -> int:
        first, last = sorted((self._byte, byte))
        size = len(self._content[first:last].decode())
        self._character += size if byte > self._byte else -size
        self._byte = byte
        return self._character


class _Reader:
    """Walk over the events of a Markdown text that collects the pieces of its blocks.

    Args:
        depth: Limit of untranslated elements inside one another in HTML.
    """

    def __init__(self, text: str, depth: int) -> None:
        self._text = text
        self._depth = depth
        front = _FRONT_MATTER.match(text)
        self._offset = front.end() if front else 0
        self._body = text[self._offset :]
        self._known = {label.casefold() for label in reference_definitions(self._body, options=_OPTIONS)}

    def edits(self) -> Iterator[Edit]:
        """Yield the edits of all blocks in their order."""
        block = _Block(self._body)
        within = 0
        """Blocks that are open."""
        for event, place in events_with_range(self._body, options=_OPTIONS):
            kind, name, value = _parts(event)
            if block.take(kind, name, value, place):
                continue
            yield from self._block(block.flush())
            if kind == "Start" and name == "HtmlBlock" and within == 0:
                start, end = block.places(place["start"]), block.places(place["end"])
                for edit in html_edits(self._body[start:end], depth=self._depth):
                    yield _moved(edit, self._offset + start)
            elif name not in _LEFT:
                within += (kind == "Start") - (kind == "End")
        yield from self._block(block.flush())

    def _block(self, pieces: Sequence[Piece]) -> Iterator[Edit]:
        edits = block_edits(self._body, pieces, _written, write_first=_written_first)
        if not _marks(pieces):
            yield from (_moved(edit, self._offset) for edit in edits)
            return
        with_tags = [_as_tag(piece) for piece in pieces]
        starts = [piece.start for piece in pieces]
        safe_edits = block_edits(self._body, with_tags, _written, write_first=_written_first)
        for edit, safe in zip(edits, safe_edits, strict=True):
            first, last = (bisect_left(starts, place) for place in (edit.start, edit.end))
            render = partial(self._rendered, _marks(pieces[first:last]), edit, safe)
            yield replace(_moved(edit, self._offset), render=render)

    def _rendered(self, marks: Counter[tuple[Kind, str]], edit: Edit, safe: Edit, found: tuple[str, ...]) -> str:
        """Write a translation; with HTML tags if the marks around its words would not count as such any more."""
        written = edit.render(found)
        # Behind a word the translation begins no other block.
        line = _Block(f"a {written}")
        for event, place in events_with_range(line.text, options=_OPTIONS, broken_link_callback=self._link):
            line.take(*_parts(event), place)
        return written if _marks(line.flush()) == marks else safe.render(found)

    def _link(self, link: Any) -> tuple[str, str] | None:
        return ("", "") if link["reference"].casefold() in self._known else None


class _Block:
    """Collects the pieces of one block after the other.

    Args:
        text: Markdown.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._content = text.encode()
        self.places = _Places(self._content)
        """Function from indices of bytes to those of characters."""
        self._pieces: list[Piece] = []
        self._words: list[str] = []
        """Words of the stretch of text under way, which the last piece stands for."""
        self._end = 0
        """Byte after what was taken."""
        self._skipped = 0
        """Elements that are open from the outermost on whose content is not translated."""

    def take(self, kind: str, name: str, value: Any, place: Range) -> bool:
        """Go on with an event; return whether it is of the block."""
        start, end = place["start"], place["end"]
        if self._skipped:
            self._skipped += (kind == "Start") - (kind == "End")
        elif kind in ("Text", "SoftBreak"):
            self._text("\n" if kind == "SoftBreak" else value, start, end)
            return True
        elif kind == "HardBreak":
            return False
        elif kind == "Code":
            self._add(Kind.CODE, start, end, text=value)
        elif kind == "InlineHtml":
            self._html(value, start, end)
        elif kind == "Start" and name in _LEFT:
            self._skipped = 1
            return False
        elif kind == "Start" and name == "Image":
            self._skipped = 1
            self._add(Kind.LONE, start, end)
        elif kind == "Start" and name == "Link" and value["Link"]["link_type"] in _ADDRESSES:
            self._skipped = 1
            self._add(Kind.CODE, start, end, text=self._content[start + 1 : end - 1].decode())
        elif name == "Link" or name in _HTML_TAGS:
            self._border(name, start, end, is_start=kind == "Start")
        else:
            return False
        return True

    def flush(self) -> list[Piece]:
        """Return the pieces since the last time."""
        self._join()
        pieces, self._pieces = self._pieces, []
        return pieces

    def _text(self, words: str, start: int, end: int) -> None:
        if start > self._end and self._content[start - 1 : start] == b"\\":
            start -= 1  # an escaped character
        if not self._words:
            self._add(Kind.TEXT, start, start)
        self._words.append(words)
        self._end = end

    def _join(self) -> None:
        """End the stretch of text under way."""
        if self._words:
            text, end = flowing("".join(self._words)), self.places(self._end)
            self._pieces[-1] = replace(self._pieces[-1], end=end, text=text)
            self._words = []

    def _border(self, name: str, start: int, end: int, *, is_start: bool) -> None:
        """Add the beginning or end of emphasis or a link."""
        kind = Kind.OPEN if is_start else Kind.CLOSE
        if name == "Link":
            label_end = self._content.find(b"]", max(self._end, start + 1))
            self._add(kind, *((start, start + 1) if is_start else (label_end, end)), name=name)
            return
        is_double = name == "Strong" or (name == "Strikethrough" and self._content[start : start + 2] == b"~~")
        width = 2 if is_double else 1
        self._add(kind, *((start, start + width) if is_start else (end - width, end)), name=name)

    def _html(self, raw: str, start: int, end: int) -> None:
        tag = _TAG.fullmatch(raw)
        if tag and tag[2].lower() not in VOID:
            self._add(Kind.CLOSE if tag[1] else Kind.OPEN, start, end, name=tag[2].lower())
        else:
            self._add(Kind.LONE, start, end)

    def _add(self, kind: Kind, start: int, end: int, *, text: str = "", name: str = "") -> None:
        self._join()
        self._end = end
        raw = _LINE_BREAK.sub(" ", self._content[start:end].decode())
        first, last = self.places(start), self.places(end)
        self._pieces.append(Piece(kind=kind, start=first, end=last, raw=raw, text=text, name=name))


def _parts(event: Any) -> tuple[str, str, Any]:
    """Return the kind of an event, the name of what begins or ends, and the event's value."""
    [(kind, value)] = event.items() if isinstance(event, dict) else [(event, "")]
    if kind not in ("Start", "End"):
        return kind, "", value
    name: str = value if isinstance(value, str) else next(iter(value))
    return kind, name, value


def _moved(edit: Edit, offset: int) -> Edit:
    return replace(edit, start=edit.start + offset, end=edit.end + offset)


def _marks(pieces: Sequence[Piece]) -> Counter[tuple[Kind, str]]:
    return Counter((piece.kind, piece.name) for piece in pieces if piece.kind is not Kind.TEXT)


def _written(translation: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", flowing(translation))


def _written_first(translation: str) -> str:
    """Return what begins a block: it is to be no heading, list or rule."""
    return _BLOCK_START.sub(r"\1\\", _written(translation))


def _as_tag(piece: Piece) -> Piece:
    tag = _HTML_TAGS.get(piece.name)
    if tag is None:
        return piece
    return replace(piece, raw=f"<{tag}>" if piece.kind is Kind.OPEN else f"</{tag}>")
