"""Alignment of a block's text with its translation: stretches of both, and the words of each sentence."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice, takewhile
from typing import NamedTuple, TypeAlias

from xuanzang.server.engine.types import TokenDetail

_WORD = re.compile(r"[^\W_]+(?:['’.\-][^\W_]+)*")
_IDEOGRAPHS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_COPIED_WORD = re.compile(r"[0-9A-Za-z]+(?:[.,:'\-][0-9A-Za-z]+)*")

Span: TypeAlias = tuple[int, int]
"""First character, and the one after the last."""
_Sources: TypeAlias = list[tuple[Span, list[Span]]]


class Word(NamedTuple):
    """Characters of a translation that stay together, and those of the source that they come from."""

    start: int
    end: int
    is_punctuation: bool
    sources: tuple[Span, ...]
    """Spans in the block's text, one for each token; none if it comes from nothing in particular."""

    def share_in(self, start: int, end: int) -> float:
        """Return how much of it comes from some characters, from -1 for nothing to 1 for all; 0 if unknown."""
        shares = [max(0, min(e, end) - max(s, start)) / (e - s) for s, e in self.sources]
        return 2 * sum(shares) / len(shares) - 1 if shares else 0.0

    @property
    def middle(self) -> float:
        """Middle of what it comes from, if that is known."""
        return sum(s + e for s, e in self.sources) / (2 * len(self.sources))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A sentence and its translation, or copied text."""

    source_start: int
    source_end: int
    start: int
    """First character in the translation."""
    end: int
    words: tuple[Word, ...] | None
    """Words and punctuation of a translation; None for copied text."""


class Alignment:
    """A block's text beside its translation."""

    def __init__(self, source: str, text: str, stretches: Sequence[Stretch]) -> None:
        """Take both.

        Args:
            source: Text of the block.
            text: Its translation.
            stretches: Stretches of both, at least one, which cover the source.
        """
        self._text = text
        self._stretches = stretches
        self._starts = [stretch.source_start for stretch in stretches]
        self._is_space = [character.isspace() for character in source]
        # The next character from each on that is no space, and the end of the last one before each.
        self._next = [*accumulate(reversed([*self._blank_or_index(), len(source)]), min)][::-1]
        self._last = [0, *accumulate((i + 1 if not space else 0 for i, space in enumerate(self._is_space)), max)]

    def _blank_or_index(self) -> Iterator[int]:
        for index, is_space in enumerate(self._is_space):
            yield len(self._is_space) if is_space else index

    def at(self, place: int) -> Stretch:
        """Return the stretch with a character of the text."""
        return self._stretches[max(0, bisect_right(self._starts, place) - 1)]

    def trimmed(self, start: int, end: int) -> Span:
        """Return characters of the text without white space around them, unless they are nothing else."""
        first, last = self._next[start], self._last[end]
        return (first, last) if first < last else (start, end)

    def follows_space(self, place: int) -> bool:
        """Return whether there is white space before a place in the text."""
        return place > 0 and self._is_space[place - 1]

    def without_space(self, place: Span) -> Span:
        """Return characters of the translation without white space around them, unless they are nothing else."""
        stretch = self._text[slice(*place)]
        body = stretch.strip()
        start = place[0] + len(stretch) - len(stretch.lstrip())
        return (start, start + len(body)) if body else place


def aligned_words(
    tokens: Iterable[TokenDetail], text: str, offset: int, *, source: str, sentence: Span, verbatim: Iterable[Span]
) -> tuple[Word, ...]:
    """Align the words of a sentence's translation.

    Args:
        tokens: Tokens of the translation, with spans in the block's text.
        text: The translation.
        offset: Place of the translation in that of the block.
        source: Text of the block.
        sentence: Place of the sentence in it.
        verbatim: Places of what is not translated in it.

    Returns:
        Words and punctuation in their order.
    """
    sources = _token_sources(tokens, len(text))
    known = _copied_words(text, source[slice(*sentence)], sentence[0])
    copies = list(_copies(text, source, verbatim))
    words: list[Word] = []
    token = 0
    for start, end, is_punctuation in _word_spans(text):
        while token < len(sources) and sources[token][0][1] <= start:
            token += 1
        found = known.get((start, end)) or [
            span for place, spans in _until(sources, token, end) for span in spans if place[0] < end
        ]
        found = _corrected(found, start, end, copies)
        words.append(Word(offset + start, offset + end, is_punctuation, tuple(found)))
    return tuple(words)


def _until(sources: _Sources, first: int, end: int) -> _Sources:
    """Return the tokens from one on that begin before an end."""
    return list(takewhile(lambda source: source[0][0] < end, islice(sources, first, None)))


def _copies(text: str, source: str, verbatim: Iterable[Span]) -> Iterator[tuple[Span, Span]]:
    """Yield where the translation has what is not translated, unchanged: its place there, and in the source."""
    ends: dict[str, int] = {}
    for start, end in verbatim:
        original = source[start:end].strip()
        place = text.find(original, ends.get(original, 0)) if original else -1
        if place >= 0:
            ends[original] = place + len(original)
            yield (place, ends[original]), (start, end)


def _corrected(found: list[Span], start: int, end: int, copies: Iterable[tuple[Span, Span]]) -> list[Span]:
    """Return the sources of a word, where what was copied unchanged comes from its original and nothing else does."""
    for place, original in copies:
        if place[0] <= start and end <= place[1]:
            return [original]
        found = [span for span in found if not (original[0] <= span[0] and span[1] <= original[1])]
    return found


def _token_sources(tokens: Iterable[TokenDetail], length: int) -> _Sources:
    """Return the place of each token with characters, and the source that it attends to, if that has characters."""
    placed = []
    end = 0
    for token in tokens:
        start, end = end, min(end + len(token.text), length)
        source = [(token.source_start, token.source_end)] if token.source_start < token.source_end else []
        if start < end:
            placed.append(((start, end), source))
    return placed


def _word_spans(text: str) -> Iterator[tuple[int, int, bool]]:
    """Yield the places of words, of ideographs and of punctuation marks one by one, and whether they are the last."""
    end = 0
    for word in _WORD.finditer(text):
        yield from _marks(text, end, word.start())
        end = word.start()
        for ideograph in _IDEOGRAPHS.finditer(text, *word.span()):
            if end < ideograph.start():
                yield end, ideograph.start(), False
            end = ideograph.end()
            yield ideograph.start(), end, False
        if end < word.end():
            yield end, word.end(), False
        end = word.end()
    yield from _marks(text, end, len(text))


def _marks(text: str, start: int, end: int) -> Iterator[tuple[int, int, bool]]:
    return ((place, place + 1, True) for place in range(start, end) if not text[place].isspace())


def _copied_words(text: str, sentence: str, offset: int) -> dict[Span, list[Span]]:
    """Return the places of Latin words and numbers that are once in each; they need no attention to be aligned."""
    ours, theirs = (list(_COPIED_WORD.finditer(each)) for each in (text, sentence))
    counts = [Counter(match.group() for match in each) for each in (ours, theirs)]
    places = {match.group(): (offset + match.start(), offset + match.end()) for match in theirs}
    return {
        match.span(): [places[match.group()]] for match in ours if all(count[match.group()] == 1 for count in counts)
    }
