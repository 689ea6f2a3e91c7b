"""White space and invisible characters within sentences, which a model neither reads nor writes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from xuanzang.text.sentences import is_copied, split_sentences
from xuanzang.text.spans.catalogue import Found, Role

_WIDE = "\u00a0\u1680\u2000-\u200a\u202f\u205f"
_BREAKS = "\t\u3000"
_INVISIBLE = (
    "\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u202a-\u202e"
    "\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff"
)
# Scripts whose letters these reshape, and pictures that they join.
_JOINED = "\u0600-\u08ff\u0900-\u1cff\ua840-\uabff\ufb50-\ufefc\u2190-\u2bff\U00010000-\U0001faff"
_JOINERS = "\u200c\u200d"
_PICTURE = "[\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff]"
_ODD = re.compile(f"[{_WIDE}{_BREAKS}{_INVISIBLE}{_JOINERS}]")
_BLANKS = re.compile(
    f"(?P<picture>(?:{_PICTURE}[\U0001f3fb-\U0001f3ff]?|[0-9#*](?=\ufe0f\u20e3))\ufe0f\u20e3?"
    f"(?:\u200d{_PICTURE}[\U0001f3fb-\U0001f3ff\ufe0f]{{0,2}}){{0,8}})"
    f"|(?P<space>(?<![\n\r {_WIDE}{_BREAKS}])(?:[ {_WIDE}{_BREAKS}]{{2,}}+|[{_WIDE}{_BREAKS}])(?![\n\r]))"
    f"|(?P<point>[{_INVISIBLE}]+|(?<![{_JOINED}\ufe0f])[{_JOINERS}]+(?![{_JOINED}]))"
)
_LONG = 3
_ENDS = ("", *".!?;。！？；…”’\"')]")


def has_blanks(text: str) -> bool:
    """Return whether a text may have white space or invisible characters that are more than a space."""
    return "  " in text or _ODD.search(text) is not None


def blanks(text: str) -> Iterator[Found]:
    """Find them within the sentences of a text; between sentences white space stays anyway."""
    if not has_blanks(text):
        return
    start = 0
    for part in split_sentences(text):
        if not is_copied(part):
            yield from _within(part, start)
        start += len(part)


def blanks_of_markup(text: str) -> Iterator[Found]:
    """Find them in text between tags, where none ends a sentence, and spaces between sentences are formatting."""
    if has_blanks(text):
        for span in _within(text, 0):
            is_between = not text[span.start : span.end].strip(" ") and text[: span.start][-1:] in _ENDS
            if not is_between:
                yield span._replace(role=Role.SPACE) if span.role is Role.BREAK else span


def _within(sentence: str, offset: int) -> Iterator[Found]:
    for match in _BLANKS.finditer(sentence):
        start, end = match.span()
        role = Role.POINT
        if match.lastgroup == "space":
            is_column = end - start >= _LONG or any(mark in match[0] for mark in _BREAKS)
            role = Role.BREAK if is_column else Role.SPACE
        yield Found(offset + start, offset + end, role)
