"""Normal forms of text, NFKC and the punctuation of Moses, and the characters of the text that their characters are."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cache

# Characters that depend on each other, such as a letter and its accents; normalising all beginnings is quadratic.
_MAX_EXACT_RUN = 64
_RUN_OF_PERIODS = r"(\.+)"

Span = tuple[int, int]
"""First character, and the one after the last."""
_Rule = tuple[re.Pattern[str], Callable[[re.Match[str]], str]]


def filled(spans: Sequence[Span]) -> list[Span]:
    """Give tokens without characters, such as the first bytes of one, the span of the next token that has any."""
    result: list[Span] = []
    following: Span | None = None
    for span in reversed(spans):
        following = span if span[0] < span[1] or following is None else following
        result.append(following)
    return result[::-1]


@cache
def _runs_of_marks() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return patterns of a long run of marks, and of the parts between which the order of marks is not changed."""
    blocks = map(chr, range(0x300, 0x1F000))
    marks = "".join(each for each in blocks if unicodedata.combining(unicodedata.normalize("NFKD", each)[0]))
    long = rf"[{marks}]{{{_MAX_EXACT_RUN + 1}}}"
    return re.compile(long), re.compile(rf"[^{marks}]*+[{marks}]{{0,{_MAX_EXACT_RUN}}}+")


def nfkc(text: str) -> str:
    """Return the NFKC form of a text in time that is linear in it.

    Marks are put in order, which takes Python quadratic time. No text has more than some of
    them in a row; in a longer row, they keep their order over longer distances, as in Unicode's stream-safe format.
    """
    if text.isascii():
        return text
    long_run, parts = _runs_of_marks()
    if not long_run.search(text):
        return unicodedata.normalize("NFKC", text)
    return "".join(unicodedata.normalize("NFKC", part) for part in parts.findall(text))


def before_nfkc(text: str, spans: Sequence[Span]) -> list[Span]:
    """Map spans of the NFKC form of a text to the text itself."""
    if nfkc(text) == text:
        return list(spans)
    # Lengths of the NFKC form of each beginning of the text.
    lengths = [0]
    for run in _independent_runs(text):
        lengths += [lengths[-1] + length for length in _prefix_lengths(run)]
    return [(bisect_right(lengths, start) - 1, bisect_left(lengths, end)) for start, end in spans]


def _independent_runs(text: str) -> Iterator[str]:
    """Cut a text into runs whose NFKC forms, joined, are that of the text; the cost is linear in the text."""
    run = ""
    for character in text:
        if run and _is_independent(run, character):
            yield run
            run = ""
        run += character
    if run:
        yield run


def _is_independent(run: str, character: str) -> bool:
    """Return whether a character neither composes with its predecessor nor changes its order."""
    if unicodedata.combining(unicodedata.normalize("NFKD", character)[0]):
        return False
    # A character composes with the end of a run at most, and long runs are of combining characters.
    end = run[-_MAX_EXACT_RUN:]
    normalized = (unicodedata.normalize("NFKC", part) for part in (end + character, end, character))
    return next(normalized) == "".join(normalized)


def _prefix_lengths(run: str) -> list[int]:
    """Return the length of the NFKC form of each beginning of a run, from one character on."""
    if len(run) <= _MAX_EXACT_RUN:
        return [len(unicodedata.normalize("NFKC", run[:end])) for end in range(1, len(run) + 1)]
    # Text has no such run: about the right character will do.
    length = len(nfkc(run))
    return [length * end // len(run) for end in range(1, len(run) + 1)]


def moved(spans: Sequence[Span], offset: int) -> tuple[Span, ...]:
    """Return spans shifted by a number of characters."""
    return tuple((start + offset, end + offset) for start, end in spans)


class Punctuation:
    """Normalises punctuation as sacremoses' MosesPunctNormalizer does; its cost is linear in the text."""

    def __init__(self, language: str) -> None:
        """Take the rules of a language, such as "en"."""
        from sacremoses import MosesPunctNormalizer  # noqa: PLC0415 - an extra, and slow to import

        self._rules = [_rule(pattern, template) for pattern, template in MosesPunctNormalizer(language).substitutions]

    def normalize(self, text: str) -> str:
        """Return a sentence as the model reads it."""
        for pattern, replacement in self._rules:
            text = pattern.sub(replacement, text)
        return text.strip()

    def before(self, text: str, spans: Sequence[Span]) -> list[Span]:
        """Map spans of the normalised form of a text to the text itself."""
        origins: list[Span] = [(place, place + 1) for place in range(len(text))]
        for rule in self._rules:
            text, origins = _apply(rule, text, origins)
        origins = origins[len(text) - len(text.lstrip()) :]
        return [(_start(origins, start), origins[end - 1][1] if end else 0) for start, end in spans]


@cache
def punctuation_of(language: str) -> Punctuation:
    """Return the rules of a language, such as "en"."""
    return Punctuation(language)


def _rule(pattern: str, template: str) -> _Rule:
    if pattern.startswith(_RUN_OF_PERIODS):
        # A run that the rest does not follow is passed as a whole; else each of its periods would be tried.
        tried = re.compile(rf"(\.++)(?:{pattern.removeprefix(_RUN_OF_PERIODS)})?")
        return tried, lambda match: match[0] if match[2] is None else match.expand(template)
    return re.compile(pattern), lambda match: match.expand(template)


def _apply(rule: _Rule, text: str, origins: list[Span]) -> tuple[str, list[Span]]:
    """Return the text after a rule, and the span of the first text that each of its characters stands for."""
    pattern, replacement = rule
    parts, found, last = list[str](), list[Span](), 0
    for match in pattern.finditer(text):
        start, end = match.span()
        new = replacement(match)
        parts += text[last:start], new
        found += origins[last:start]
        found += _origins_of(new, match[0], origins[start:end])
        last = end
    return "".join((*parts, text[last:])), found + origins[last:]


def _origins_of(new: str, old: str, origins: Sequence[Span]) -> list[Span]:
    """Give the characters that stay their own spans, and those between them the span of the replaced characters."""
    least = min(len(new), len(old))
    first = next((i for i in range(least) if new[i] != old[i]), least)
    last = next((i for i in range(least - first) if new[-1 - i] != old[-1 - i]), least - first)
    begin = _start(origins, first)
    end = origins[len(old) - last - 1][1] if len(old) - last > first else begin
    between = len(new) - first - last
    return [*origins[:first], *[(begin, end)] * between, *origins[len(old) - last :]]


def _start(origins: Sequence[Span], place: int) -> int:
    if place < len(origins):
        return origins[place][0]
    return origins[-1][1] if origins else 0
