"""Subtitles (.srt, .vtt): the text of each cue; numbers, times, settings, notes, styles and tags stay."""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Callable, Iterator

from xuanzang.client.documents.document import Document, DocumentError, ReadSettings
from xuanzang.client.documents.encoding import EncodedText
from xuanzang.client.documents.splicing import Edit, SplicedDocument, flowing, replacement, stripped_span

_CUE = re.compile(r"^[^\r\n]*\d[:.,]\d+[^\r\n]*-->[^\r\n]*(?:\r\n|\r|\n)", re.MULTILINE)
_BLANK = re.compile(r"(?:\r\n|\r(?!\n)|\n)[ \t]*(?:[\r\n]|\Z)")
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
    for cue in _CUE.finditer(text):
        # A cue may be empty: then the line end after its times is that of the blank line.
        blank = _BLANK.search(text, cue.end() - 1)
        end = blank.start() if blank else len(text)
        for start, stop in _runs(text, cue.end(), max(cue.end(), end)):
            write = _writer(text[start:stop], line_end, has_entities=has_entities)
            content = flowing(text[start:stop])
            yield from replacement(start, stop, html.unescape(content) if has_entities else content, write)


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
        wrapped = textwrap.wrap(text, width, break_on_hyphens=False) if width else [text]
        content = line_end.join(wrapped).replace("-->", "->")
        return html.escape(content, quote=False) if has_entities else content

    return write
