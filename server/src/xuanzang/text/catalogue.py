"""Catalogue of placeholders: the spans of a text that are for programs, found by family in linear time.

A span begins at a mark, such as "%", or lies in a run of ASCII without white space, such as an address. Only marks are
searched for, so text without any costs one pass of a character class. No character is looked at by more than one run,
so that no text takes more than linear time.
"""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from xuanzang.text.placeholder_patterns import COMMON_PRINTF, LENGTH, MARKED, TELLTALE, WIDTH, WITHIN, Role
from xuanzang.text.types import PlaceholderFamily as Family
from xuanzang.text.types import ProtectedPattern


class Found(NamedTuple):
    """A span of a text."""

    start: int
    end: int
    role: Role
    is_ordered: bool = False
    """True if its position among others of its kind identifies it."""


# Priority of families for a mark, and the closing marks of spans.
_MARKED_ORDER = (
    *(Family.BRACES, Family.TEMPLATES, Family.VARIABLES, Family.PRINTF),
    *(Family.TAGS, Family.IDENTIFIERS, Family.HANDLES, Family.CODE),
)
# Patterns that are tried first, because most spans are theirs, and no span of another one.
_FIRST = frozenset((*COMMON_PRINTF, *(pattern for _, mark, pattern in MARKED[Family.TAGS] if mark in "<&")))
_CLOSERS: Mapping[str, str] = MappingProxyType({"{": "}", "<": ">", "[": "]", "`": "`"})
_MAX_SPAN = 2000
_PROTECTED: Mapping[ProtectedPattern, frozenset[Family]] = MappingProxyType(
    {
        ProtectedPattern.URL: frozenset({Family.ADDRESSES}),
        ProtectedPattern.EMAIL: frozenset({Family.ADDRESSES}),
        ProtectedPattern.CODE: frozenset({Family.CODE}),
        ProtectedPattern.PLACEHOLDER: frozenset({Family.PRINTF, Family.BRACES}),
        ProtectedPattern.TAG: frozenset({Family.TAGS}),
    }
)
_MAIL = re.compile(r"(?:mailto:)?[A-Za-z0-9._%+-]{1,64}+@")
_NUMBER = re.compile(r"(?<![A-Za-z0-9_])(?<![0-9][.,:/])[0-9]++(?:[.,:/][0-9]++)*+%?(?![A-Za-z0-9_])")
_RUN = re.compile(r"[!-~]+")
# Fields without a name or number.
_FIELDS_OF_PLACES = ("%s", "%dpx", "%d percent", "百分之%d", "{}", "{:d}", "{!r}")
_COMMON_FIELDS = frozenset(("%s", "%d", "%@", "{}"))
_ORDERED = re.compile(
    rf"%(?! *%)[ ]?{WIDTH}{LENGTH}[diouxXeEfFgGaAcCsSp@](?: percent|[a-z]{{0,2}})$|百分之 ?%[^($]*$|\{{[:!}}]"
)


# Signs around emphasised words. The closing sign is looked for in the same line.
_EMPHASIS = re.compile(
    r"(?P<sign>(?P<one>[*_~='|])(?<![A-Za-z0-9\\].)(?<!\*\*|__|~~|==|''|\|\|)"
    r"(?:(?<=[*_])(?P=one){0,2}+|(?P=one){1,2}+))(?!\s|(?P=one))"
    r"(?=(?P<words>(?:(?!(?P=sign))[^\n]){1,200}+)(?<!\s)(?P<end>(?P=sign))(?![A-Za-z0-9]|(?P=one)))"
)
# A name that a program replaces together with its signs, as in *name*.
_REPLACED = re.compile(r"(?:(?:user|first|last|full|file|host)_?)?name|user|email|id|url|count|value|key|[a-z]")

_Matches = Callable[[str, int], "re.Match[str] | None"]


class _Catalogue(NamedTuple):
    """Compiled patterns of some families."""

    marks: re.Pattern[str] | None
    """Characters that a span may begin with."""
    patterns: Mapping[str, tuple[_Matches, Sequence[tuple[Role, bool]]]]
    """By mark, the function that matches a span and the text up to the next mark, and by its last group the role of the
    span and whether it may be a field without name or number."""
    within: re.Pattern[str] | None


@cache
def _catalogue(families: frozenset[Family]) -> _Catalogue:
    patterns: dict[str, list[tuple[str, Role]]] = {}
    for family in _MARKED_ORDER:
        for role, marks, pattern in MARKED.get(family, ()) if family in families else ():
            for mark in marks:
                patterns.setdefault(mark, []).append((pattern, role))
    for each in patterns.values():
        each.sort(key=lambda pattern: pattern[0] not in _FIRST)
    within = [pattern for family in Family if family in families for pattern in WITHIN.get(family, ())]
    marks = "".join(map(re.escape, patterns))
    return _Catalogue(
        marks=re.compile(f"[{marks}]") if patterns else None,
        patterns={mark: _alternatives(each, marks) for mark, each in patterns.items()},
        # None begins within a word, which is seen before any of them is tried.
        within=re.compile(f"(?<![A-Za-z0-9])(?:{'|'.join(within)})", re.ASCII) if within else None,
    )


def _alternatives(patterns: Sequence[tuple[str, Role]], marks: str) -> tuple[_Matches, Sequence[tuple[Role, bool]]]:
    """Join patterns, the first match winning, to one whose last group tells the pattern and where the span ends."""
    joined = "|".join(f"(?:{pattern})(?P<p{number}>)" for number, (pattern, _) in enumerate(patterns))
    compiled = re.compile(f"(?:{joined})[^{marks}]*+")
    roles = [(Role.VALUE, False)] * (compiled.groups + 1)
    for number, (pattern, role) in enumerate(patterns):
        has_fields = any(re.match(pattern, field) for field in _FIELDS_OF_PLACES)
        roles[compiled.groupindex[f"p{number}"]] = role, has_fields
    return compiled.match, roles


def find(text: str, families: Set[Family]) -> list[Found]:
    """Find the spans of some families, in the order of the text: the first at each place, and of those the longest."""
    catalogue = _catalogue(frozenset(families))
    found = _marked(text, catalogue)
    for span in list(_in_runs(text, catalogue, found)):
        start, end = span[:2]
        first = last = bisect_left(found, (start,))
        while last < len(found) and found[last][0] < end:
            last += 1
        is_within = bool(first) and found[first - 1][1] > start
        is_shorter = first < last and found[first][0] == start and found[first][1] >= end
        if not is_within and not is_shorter:
            found[first:last] = [span]
    return _with_emphasis(text, found) if Family.VARIABLES in families else found


def _with_emphasis(text: str, found: list[Found]) -> list[Found]:
    """Add signs of emphasis, in pairs that no other span overlaps."""
    closing = set[int]()
    for match in _EMPHASIS.finditer(text):
        start, end, last = match.start(), match.end(), match.start("end")
        after = match.end("end")
        if start in closing or _overlaps(found, last, after):
            continue
        if match["one"] == "_":
            first = bisect_left(found, (start,))
            if first < len(found) and found[first].start == start and found[first].end < last:
                # The first of several words, as in _not this_, which alone is a name.
                del found[first]
        if _overlaps(found, start, end):
            continue
        closing.add(last)
        if _REPLACED.fullmatch(match["words"]):
            insort(found, Found(start, after, Role.VALUE))
        else:
            insort(found, Found(start, end, Role.OPEN))
            insort(found, Found(last, after, Role.CLOSE))
    return found


def _overlaps(found: Sequence[Found], start: int, end: int) -> bool:
    place = bisect_left(found, (start,))
    return (place < len(found) and found[place].start < end) or (place > 0 and found[place - 1].end > start)


def find_protected(text: str, pattern: ProtectedPattern) -> list[Found]:
    """Find the texts of a protected pattern, which are those of some families, or numbers in digits."""
    if pattern is ProtectedPattern.NUMBER:
        return [Found(*match.span(), Role.VALUE) for match in _NUMBER.finditer(text)]
    found = find(text, _PROTECTED[pattern])
    if pattern in (ProtectedPattern.URL, ProtectedPattern.EMAIL):
        is_mail = pattern is ProtectedPattern.EMAIL
        return [span for span in found if bool(_MAIL.match(text, span.start)) is is_mail]
    return found


def _marked(text: str, catalogue: _Catalogue) -> list[Found]:
    found: list[Found] = []
    if catalogue.marks is None or (first := catalogue.marks.search(text)) is None:
        return found
    next_mark, patterns, make = catalogue.marks.search, catalogue.patterns, tuple.__new__
    closed: dict[str, int] = {}
    place, length = first.start(), len(text)
    while place < length:
        mark = text[place]
        match_span, roles = patterns[mark]
        # Only a mark that has begun no span needs its closer looked for: the next one may fail at the same cost.
        is_open = not closed or mark not in closed or _closes(text, mark, place, closed)
        if is_open and (match := match_span(text, place)) and (group := match.lastindex):
            role, is_ordered = roles[group]
            end = match.start(group)
            if is_ordered and text[place:end] not in _COMMON_FIELDS:
                is_ordered = _ORDERED.match(text, place, end) is not None
            # A third of the time of its constructor.
            found.append(make(Found, (place, end, role, is_ordered)))
            place = match.end()
        else:
            if mark in _CLOSERS:
                closed.setdefault(mark, place)
            begun = next_mark(text, place + 1)
            place = begun.start() if begun else length
    return found


def _closes(text: str, mark: str, place: int, closed: dict[str, int]) -> bool:
    """Return whether the closer of a mark follows a place soon; `closed` keeps where the next one is, by mark."""
    if closed[mark] <= place:
        found = text.find(_CLOSERS[mark], place + 1)
        closed[mark] = found if found >= 0 else len(text) + _MAX_SPAN
    return closed[mark] - place <= _MAX_SPAN


def _in_runs(text: str, catalogue: _Catalogue, marked: Sequence[Found]) -> Iterator[Found]:
    """Find spans within runs of ASCII, other than in marked spans."""
    if catalogue.within is None:
        return
    place, passed, make = 0, 0, tuple.__new__
    while telltale := TELLTALE.search(text, place):
        start = telltale.start()
        while passed < len(marked) and marked[passed][1] <= start:
            passed += 1
        if passed < len(marked) and marked[passed][0] <= start and text[start] != "\\":
            # Only an escape may be a part of a longer span, such as C:\\new.
            place = marked[passed][1]
            continue
        while start > place and "!" <= text[start - 1] <= "~":
            start -= 1
        run = _RUN.match(text, start)
        place = run.end() if run else start + 1
        for match in catalogue.within.finditer(text, start, place):
            first, last = match.span()
            if first < last:
                yield make(Found, (first, last, Role.VALUE, False))
