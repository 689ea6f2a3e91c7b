"""Subtitles (.srt, .vtt, .ass, .ssa): the text of each cue; numbers, times, settings, notes, styles and tags stay."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterator, Mapping

from xuanzang.documents.document import Document, DocumentError, ReadSettings
from xuanzang.documents.encoding import EncodedText
from xuanzang.documents.formats.html_tokens import references, unescaped
from xuanzang.documents.splicing import Edit, SplicedDocument, flowing, replacement, stripped_span

_LINE = re.compile(r"([^\r\n]*+)(?:\r\n?|\n|\Z)")
_ARROW = "-->"
_TIME = re.compile(r"\d[:.,]\d")
_TAG = re.compile(r"</?\w[^<>\r\n]*>|</>|\{\\[^{}\r\n]*\}")
_OVERRIDE = re.compile(r"\{[^{}\r\n]*\}")
_DRAWN_OR_SUNG = re.compile(r"\{[^{}]*\\(?:p[1-9]|[kK][fo]?\d)")
"""Override of Advanced SubStation whose text is a drawing, or the syllables of a song."""
_BREAK = re.compile(r"(?<!:)\\N|(?<!:)\\n(?=[A-Z\W])")
# Another speaker's line, a sound, a song, or another sentence.
_DIALOGUE = re.compile(
    r"(?:\r\n?|\n|\\N)(?=[ \t]*(?:[-–—\[(（【♪♫#]|>>|[A-Z][A-Z0-9 .']{0,30}[:：](?!\d)))"
    r"|(?<=[\])）】♪♫])[ \t]*+(?:\r\n?|\n|\\N)|(?<=[.!?。！？…])[ \t]*+\\N"
)
_DASH = re.compile(r"[ \t]*[-–—]+[ \t]*")
_LINE_CHARACTERS = 42


def read(raw: bytes, settings: ReadSettings) -> Document:
    """Read subtitles; see `Format`."""
    source = EncodedText.decode(raw, settings.encoding)
    if settings.suffix in (".ass", ".ssa"):
        return SplicedDocument(source, list(_event_edits(source.text)))
    is_vtt = settings.suffix == ".vtt"
    if is_vtt and not source.text.startswith("WEBVTT"):
        raise DocumentError("no WebVTT file: it does not begin with WEBVTT")
    return SplicedDocument(source, list(_edits(source.text, is_vtt=is_vtt)))


def _edits(text: str, *, is_vtt: bool) -> Iterator[Edit]:
    line_end = "\r\n" if "\r\n" in text else "\n" if "\n" in text or "\r" not in text else "\r"
    for begin, end in _paragraphs(text, ends_at_blank=is_vtt):
        if is_vtt and _is_data(text[begin:end]):
            continue
        for start, stop in _runs(text, begin, end, _TAG):
            content = text[start:stop]
            has_breaks = not is_vtt and bool(_BREAK.search(content))
            write = _writer(content, "\\N" if has_breaks else line_end, has_entities=is_vtt)
            content = flowing(_BREAK.sub("\n", content) if has_breaks else content)
            yield from replacement(start, stop, unescaped(content) if is_vtt else content, write)


def _event_edits(text: str) -> Iterator[Edit]:
    """Yield the edits of Advanced SubStation: the last field of each dialogue."""
    section, fields = "", 0
    for line in _LINE.finditer(text):
        kind, _, values = line[1].partition(":")
        if line[1].startswith("["):
            section = line[1].strip().lower()
        elif section == "[events]" and kind == "Format":
            fields = values.count(",")
        elif section == "[events]" and kind == "Dialogue" and not _DRAWN_OR_SUNG.search(values):
            parts = values.split(",", fields)
            if fields and len(parts) > fields:
                yield from _dialogue_edits(text, line.end(1) - len(parts[-1]), line.end(1))


def _dialogue_edits(text: str, begin: int, end: int) -> Iterator[Edit]:
    for start, stop in _runs(text, begin, end, _OVERRIDE):
        content = text[start:stop]
        if "{" in content or "}" in content:
            continue
        lines = _writer(content, "\\N", has_entities=False) if _BREAK.search(content) else flowing

        spelled = {ord("{"): "(", ord("}"): ")"} | ({0xA0: "\\h"} if "\\h" in content else {})

        def write(translation: str, lines: Callable[[str], str] = lines, spelled: Mapping[int, str] = spelled) -> str:
            return lines(translation).translate(spelled)

        yield from replacement(start, stop, flowing(_BREAK.sub("\n", content).replace("\\h", "\xa0")), write)


def _is_data(cue: str) -> bool:
    """Return whether a cue holds metadata instead of words."""
    if not cue.lstrip().startswith(("{", "[{")):
        return False
    try:
        json.loads(cue)
    except (ValueError, RecursionError):
        return False
    return True


def _paragraphs(text: str, *, ends_at_blank: bool) -> Iterator[tuple[int, int]]:
    """Yield the spans of cues between blank lines, from their times up to the next ones.

    Args:
        ends_at_blank: Whether a blank line ends a cue.
    """
    begin, end, before = -1, 0, 0
    is_cue = False
    for line in _LINE.finditer(text):
        arrow = line[1].find(_ARROW)
        if arrow >= 0 and _TIME.search(line[1], 0, arrow):
            if begin >= 0:
                # The number of the next cue stands before its times.
                yield begin, before if text[before:end].strip().isdecimal() else end
            begin, is_cue = -1, True
        elif line[1].strip():
            if is_cue:
                before, end = line.start(), line.end(1)
                begin = before if begin < 0 else begin
        elif begin >= 0:
            yield begin, end
            begin, is_cue = -1, not ends_at_blank
        elif ends_at_blank:
            is_cue = False
    if begin >= 0:
        yield begin, end


def _runs(text: str, start: int, end: int, tag: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Yield the spans of a cue between its tags, sentences on lines of their own, and lines of other speakers."""
    cuts = [*tag.finditer(text, start, end), *_DIALOGUE.finditer(text, start, end)]
    for cut in sorted(cuts, key=re.Match.start):
        yield from _run(text, start, cut.start())
        start = cut.end()
    yield from _run(text, start, end)


def _run(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    start, end = stripped_span(text, start, max(start, end))
    while text.startswith("\\N", start, end):
        start, end = stripped_span(text, start + 2, end)
    while text.endswith("\\N", start, end):
        start, end = stripped_span(text, start, end - 2)
    dash = _DASH.match(text, start, end)
    yield (dash.end() if dash else start), end


def _writer(source: str, line_end: str, *, has_entities: bool) -> Callable[[str], str]:
    """Return the function from a translation to lines: one, or about as many as the source has."""
    lines = source.count(line_end) + 1
    kept = references(source) if has_entities else {}

    def write(translation: str) -> str:
        text = flowing(translation)
        width = max(_LINE_CHARACTERS, -(-len(text) // lines) + 8) if lines > 1 or len(text) > _LINE_CHARACTERS else 0
        wrapped = _wrapped(text, width) if width else [text]
        content = line_end.join(wrapped).replace(_ARROW, "->")
        return html.escape(content, quote=False).translate(kept) if has_entities else content

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
