"""Blocks of Markdown: the events of a parser become the pieces of paragraphs, headings, items and cells."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from html import escape
from typing import Any

from xuanzang.documents.formats.blocks import Kind, Piece
from xuanzang.documents.formats.html_tokens import VOID, unescaped
from xuanzang.documents.formats.markdown_dialects import NOTE, Mask
from xuanzang.documents.splicing import Edit, flowing, stripped_span, translatable

LEFT = ("CodeBlock", "HtmlBlock")
"""Blocks without words of their own."""
EMPHASIS = ("Emphasis", "Strong", "Strikethrough")
_INLINE = (*EMPHASIS, "Link", "Image")
_ADDRESSES = ("Autolink", "Email")
_BY_LABEL = ("Shortcut", "Collapsed", "ShortcutUnknown", "CollapsedUnknown")
"""Links whose text is the label of their definition."""
_UNTRANSLATED = frozenset(("code", "kbd", "samp", "var", "pre", "svg", "math", "script", "style", "textarea", "tt"))
_TAG = re.compile(r"<(/?)([A-Za-z][\w.-]*+)[^>]*+>")
_BREAK = re.compile(r"<br(?:\s[^<>]*)?/?>", re.IGNORECASE)
_NO_TRANSLATION = re.compile(r"""\stranslate\s*=\s*["']?no\b|\sclass\s*=\s*["'][^"']*\bnotranslate\b""", re.IGNORECASE)
# A code span, or words on several lines.
_KEPT_LABEL = re.compile(r"(`++)[^`]++(?:(?!\1)`++[^`]++)*\1|(?s:.*(?: {2}|\\)\r?\n.*)")
_PLAIN_NOTE = re.compile(r"[^\[\]*_`<>\\$&|^{}~=\r\n]+")
_SPECIAL_IN_NOTE = re.compile(r"[\[\]*_`<>\\$&|^{}~]")
LINE_BREAK = re.compile(r"(?:\r\n?|\n)(?:[ \t]*+>)*+[ \t]*+")
"""Line end within a paragraph, and the marks of quotations after it; a line that goes on begins with no others."""


class Places:
    """Indices of characters by those of bytes; cheap for neighbours."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._byte = self._character = 0

    def __call__(self, byte: int) -> int:
        """Return the index of the character that begins at a byte."""
        first, last = sorted((self._byte, byte))
        size = len(self._content[first:last].decode())
        self._character += size if byte > self._byte else -size
        self._byte = byte
        return self._character


class Block:
    """Collects the pieces of one block after the other.

    Args:
        text: Markdown.
        masks: Spans that the parser has seen as words, in their order.
    """

    def __init__(self, text: str, masks: tuple[Mask, ...]) -> None:
        self.content = text.encode()
        """The text as bytes."""
        self.places = Places(self.content)
        """Function from indices of bytes to those of characters."""
        self._masks = masks
        self._mask_ends = [mask.end for mask in masks]
        self._pieces: list[Piece] = []
        self._words: list[str] = []
        """Words of the current stretch of text, whose piece is the last."""
        self._end = 0
        """Byte after the last event."""
        self._skipped = 0
        """Number of open elements, counted from the outermost untranslated one."""
        self._labels: list[tuple[int, bool]] = []
        """Start of each open link, and whether its text is a label."""
        self._verbatim: list[str] = []
        """Names of open HTML elements, from the outermost untranslated one."""
        self._verbatim_start = 0

    def take(self, kind: str, name: str, value: Any, span: tuple[int, int]) -> bool:
        """Go on with an event of a span of bytes; return whether it is of the block."""
        if self._skipped:
            self._skipped += (kind == "Start") - (kind == "End")
            return True
        if self._verbatim and (kind not in ("Start", "End") or name in _INLINE):
            self._go_on_verbatim(kind, name, *span)
            return True
        return self._take(kind, name, value, span)

    def _take(self, kind: str, name: str, value: Any, span: tuple[int, int]) -> bool:
        start, end = span
        if self._is_break(kind, start, end):
            return False
        if kind in ("Text", "SoftBreak"):
            self._text("\n" if kind == "SoftBreak" else value, start, end)
        elif kind in ("Code", "InlineMath", "DisplayMath"):
            self._add(Kind.CODE, start, end, text=value)
        elif kind == "InlineHtml":
            self._html(start, end)
        elif kind == "FootnoteReference":
            self._add(Kind.LONE, start, end)
        elif kind == "Start" and name in LEFT:
            self._skipped = 1
            return False
        elif kind == "Start" and name in ("Image", "Link"):
            self._link(name, value[name]["link_type"], start, end)
        elif kind == "End" and name == "Link":
            self._link_end(end)
        elif name in EMPHASIS:
            self._border(name, start, end, is_start=kind == "Start")
        else:
            return False
        return True

    def _is_break(self, kind: str, start: int, end: int) -> bool:
        """Return whether an event is <br>, or the line end behind one: no word moves past it but within a link."""
        if self._labels:
            return False
        is_line_end = kind == "SoftBreak" and not self._pieces and not self._words
        return is_line_end or (kind == "InlineHtml" and bool(_BREAK.fullmatch(self.content[start:end].decode())))

    def flush(self) -> list[Piece]:
        """Return the pieces since the last time."""
        if self._verbatim:
            self._end_verbatim(self._end)
        self._join()
        pieces, self._pieces = self._pieces, []
        return pieces

    def _text(self, words: str, start: int, end: int) -> None:
        is_escaped = start > self._end and self.content[start - 1 : start] == b"\\"
        start -= is_escaped
        number = bisect_left(self._mask_ends, start + 1)
        while number < len(self._masks) and self._masks[number].start < end:
            mask = self._masks[number]
            before = self.content[start + is_escaped : max(start, mask.start)].decode()
            self._words_until(before, start, mask.start)
            is_escaped = False
            self._mask(mask)
            start, number = mask.end, number + 1
            words = self.content[start : max(start, end)].decode()
        self._words_until(words, start, end)

    def _words_until(self, words: str, start: int, end: int) -> None:
        if end <= max(start, self._end - 1) and words != "\n":
            return
        if not self._words:
            self._add(Kind.TEXT, start, start)
        self._words.append(words)
        self._end = end

    def _mask(self, mask: Mask) -> None:
        if mask.end <= self._end:
            return
        raw = self.content[mask.start : mask.end].decode()
        if raw.startswith(NOTE):
            self._add(Kind.LONE, mask.start, mask.end, name="mask")
            self._pieces[-1] = replace(self._pieces[-1], edits=tuple(_note_edits(raw)))
            return
        last = self._pieces[-1] if self._pieces else None
        if not mask.is_attribute:
            self._add(Kind.CODE, mask.start, mask.end, text=raw, name="mask")
        elif last and not self._words and self._end == mask.start and last.kind not in (Kind.TEXT, Kind.OPEN):
            self._pieces[-1] = replace(last, end=self.places(mask.end), raw=last.raw + raw)
            self._end = mask.end
        else:
            self._add(Kind.LONE, mask.start, mask.end, name="mask")

    def _join(self) -> None:
        """End the stretch of text under way."""
        if self._words:
            text, end = flowing("".join(self._words)), self.places(self._end)
            self._pieces[-1] = replace(self._pieces[-1], end=end, text=text)
            self._words = []

    def _link(self, name: str, link_type: Any, start: int, end: int) -> None:
        is_label = link_type in _BY_LABEL
        whole = end + 2 if is_label and self.content.startswith(b"[]", end) else end
        if name == "Image":
            self._skipped = 1
            self._add(Kind.LONE, start, whole)
        elif link_type in _ADDRESSES:
            self._skipped = 1
            self._add(Kind.CODE, start, end, text=self.content[start + 1 : end - 1].decode())
        elif is_label and _KEPT_LABEL.fullmatch(label := self.content[start + 1 : end - 1].decode()):
            self._skipped = 1
            self._add(Kind.CODE, start, whole, text=label.strip("`"))
        else:
            self._labels.append((start, is_label))
            self._add(Kind.OPEN, start, start + 1, name=name)

    def _link_end(self, end: int) -> None:
        """Add the end of a link; of a link by its text one by its label, which stays while the text changes."""
        start, is_label = self._labels.pop()
        label_end = self.content.find(b"]", max(self._end, start + 1))
        if is_label:
            label = LINE_BREAK.sub(" ", self.content[start + 1 : label_end].decode())
            end += 2 if self.content.startswith(b"[]", end) else 0
            self._add(Kind.CLOSE, label_end, end, name="Link", raw=f"][{label}]")
        else:
            self._add(Kind.CLOSE, label_end, end, name="Link")

    def _border(self, name: str, start: int, end: int, *, is_start: bool) -> None:
        """Add the beginning or end of emphasis."""
        kind = Kind.OPEN if is_start else Kind.CLOSE
        is_double = name == "Strong" or (name == "Strikethrough" and self.content[start : start + 2] in (b"~~", b"=="))
        name = "Mark" if self.content[start : start + 2] == b"==" else name
        width = 2 if is_double else 1
        self._add(kind, *((start, start + width) if is_start else (end - width, end)), name=name)

    def _html(self, start: int, end: int) -> None:
        raw = self.content[start:end].decode()
        tag = _TAG.fullmatch(raw)
        name = tag[2].lower() if tag else ""
        if tag is None or name in VOID or raw.endswith("/>"):
            self._add(Kind.LONE, start, end)
        elif not tag[1] and (name in _UNTRANSLATED or _NO_TRANSLATION.search(raw)):
            self._join()
            self._verbatim, self._verbatim_start, self._end = [name], start, end
        else:
            self._add(Kind.CLOSE if tag[1] else Kind.OPEN, start, end, name=name)

    def _go_on_verbatim(self, kind: str, name: str, start: int, end: int) -> None:
        if name == "Link" and kind == "Start":
            self._labels.append((start, False))
        elif name == "Link":
            self._labels.pop()
        tag = _TAG.fullmatch(self.content[start:end].decode()) if kind == "InlineHtml" else None
        self._end = max(self._end, end)
        if tag and tag[2].lower() == self._verbatim[0] and not tag[0].endswith("/>"):
            if not tag[1]:
                self._verbatim.append(tag[2])
            elif len(self._verbatim) > 1:
                self._verbatim.pop()
            else:
                self._end_verbatim(end)

    def _end_verbatim(self, end: int) -> None:
        start, self._verbatim = self._verbatim_start, []
        text = self.content[start:end].decode()
        self._add(Kind.CODE, start, end, text=_TAG.sub("", text))

    def _add(self, kind: Kind, start: int, end: int, *, text: str = "", name: str = "", raw: str | None = None) -> None:
        self._join()
        self._end = end
        if raw is None:
            raw = LINE_BREAK.sub(" ", self.content[start:end].decode())
        first, last = self.places(start), self.places(end)
        self._pieces.append(Piece(kind=kind, start=first, end=last, raw=raw, text=text, name=name))


def _note_edits(note: str) -> Iterator[Edit]:
    """Yield the edit of a note's text, which stays if it has markup."""
    start, end = stripped_span(note, len(NOTE), len(note) - 1)
    text = note[start:end]
    if _PLAIN_NOTE.fullmatch(text) and translatable(text):
        yield Edit(start=start, end=end, texts=(escape(text, quote=False),), render=_note)


def _note(found: tuple[str, ...]) -> str:
    return _SPECIAL_IN_NOTE.sub(r"\\\g<0>", unescaped(found[0]))


def without_labels(pieces: Sequence[Piece]) -> list[Piece]:
    """Return pieces with each link by its text as one mark without words, so that its text stays."""
    result: list[Piece] = []
    opened: list[int] = []
    for piece in pieces:
        result.append(piece)
        if piece.name == "Link" and piece.kind is Kind.OPEN:
            opened.append(len(result) - 1)
        elif piece.name == "Link" and piece.kind is Kind.CLOSE and opened:
            start = opened.pop()
            if not piece.raw.startswith("](") and len(piece.raw) > piece.end - piece.start:
                result[start:] = [replace(result[start], kind=Kind.LONE, end=piece.end)]
    return result


def parts(event: Any) -> tuple[str, str, Any]:
    """Return the kind of an event, the name of what begins or ends, and the event's value."""
    [(kind, value)] = event.items() if isinstance(event, dict) else [(event, "")]
    if kind not in ("Start", "End"):
        return kind, "", value
    name: str = value if isinstance(value, str) else next(iter(value))
    return kind, name, value
