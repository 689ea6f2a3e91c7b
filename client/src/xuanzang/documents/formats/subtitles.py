"""Subtitles (.srt, .vtt): the text of each cue; numbers, times, settings, notes, styles and tags stay."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator

from xuanzang.documents.document import Document, DocumentError, ReadSettings
from xuanzang.documents.encoding import EncodedText
from xuanzang.documents.formats.html_tokens import unescaped
from xuanzang.documents.splicing import Edit, SplicedDocument, flowing, replacement, stripped_span

_LINE = re.compile(r"([^\r\n]*+)(?:\r\n?|\n|\Z)")
_ARROW = "-->"
_TIME = re.compile(r"\d[:.,]\d")
_TAG = re.compile(r"<[^<>\r\n]*>|\{\\[^{}\r\n]*\}")
_DIALOGUE = re.compile(r"[\r\n](?=[ \t]*[-–—])")
_DASH = re.compile(r"[ \t]*[-–—]+[ \t]*")
_LINE_CHARACTERS = 42


def read(raw: bytes, settings: ReadSettings) -> Document:
    """Read subtitles; see `Format`."""
    source = EncodedText.decode(raw, settings.encoding)
    is_vtt = settings.suffix == ".vtt"
    if is_vtt and not source.text.startswith("WEBVTT"):
        raise DocumentError("no WebVTT file: it does not begin with WEBVTT")
    return SplicedDocument(source, list(_edits(source.text, has_entities=is_vtt)))


def _edits(text: str, *, has_entities: bool) -> Iterator[Edit]:
    line_end = "\r\n" if "\r\n" in text else "\n"
    for begin, end in _cues(text):
        for start, stop in _runs(text, begin, end):
            write = _writer(text[start:stop], line_end, has_entities=has_entities)
            content = flowing(text[start:stop])
            yield from replacement(start, stop, unescaped(content) if has_entities else content, write)


def _cues(text: str) -> Iterator[tuple[int, int]]:
    """Yield the span of each cue: the lines behind its times, up to a blank line or the next times."""
    begin, end, before = -1, 0, 0
    for line in _LINE.finditer(text):
        arrow = line[1].find(_ARROW)
        if arrow >= 0 and _TIME.search(line[1], 0, arrow):
            if begin >= 0:
                # Without a blank line between them, the number of the next cue stands before its times.
                yield begin, before if text[before:end].strip().isdecimal() else end
            begin = before = end = line.end()
        elif line[1].strip():
            before, end = line.start(), line.end(1)
        elif begin >= 0:
            yield begin, end
            begin = -1
    if begin >= 0:
        yield begin, end


def _runs(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the spans of a cue between its tags and before lines that begin with the dash of another speaker."""
    cuts = [*_TAG.finditer(text, start, end), *_DIALOGUE.finditer(text, start, end)]
    for cut in sorted(cuts, key=re.Match.start):
        yield from _run(text, start, cut.start())
        start = cut.end()
    yield from _run(text, start, end)


def _run(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    start, end = stripped_span(text, start, max(start, end))
    dash = _DASH.match(text, start, end)
    yield (dash.end() if dash else start), end


def _writer(source: str, line_end: str, *, has_entities: bool) -> Callable[[str], str]:
    """Return the function from a translation to lines: one, or about as many as the source has."""
    lines = source.count("\n") + 1

    def write(translation: str) -> str:
        text = flowing(translation)
        width = max(_LINE_CHARACTERS, -(-len(text) // lines) + 8) if lines > 1 or len(text) > _LINE_CHARACTERS else 0
        wrapped = _wrapped(text, width) if width else [text]
        content = line_end.join(wrapped).replace(_ARROW, "->")
        return html.escape(content, quote=False) if has_entities else content

    return write


def _wrapped(text: str, width: int) -> list[str]:
    """Return lines of at most a number of characters; words that are longer, as Chinese has no spaces, are cut."""
    lines: list[str] = []
    words: list[str] = []
    length = -1
    for word in text.split():
        room = width - length - 1
        if room < len(word) <= width:
            lines.append(" ".join(words))
            words, length, room = [], -1, width
        room = max(0, room)
        *full, last = word[:room], *(word[start : start + width] for start in range(room, len(word), width))
        for piece in full:
            lines.append(" ".join([*words, piece]).rstrip())
            words, length = [], -1
        words.append(last)
        length += 1 + len(last)
    return [*lines, " ".join(words)]
