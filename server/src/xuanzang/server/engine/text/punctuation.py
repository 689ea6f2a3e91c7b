"""Normalisation of punctuation as by Moses, and the characters of a text that those of its result stand for."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache

from xuanzang.server.engine.text.offsets import Span

_Rule = tuple[re.Pattern[str], Callable[[re.Match[str]], str]]
_RUN_OF_PERIODS = r"(\.+)"


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
    """Give the characters that stay their own spans, and those between them the span of all that was replaced."""
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
