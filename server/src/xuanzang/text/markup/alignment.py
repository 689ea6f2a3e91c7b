"""Alignment of a block's text with its translation: stretches of both, and the words of each sentence."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise, takewhile
from typing import NamedTuple, TypeAlias

from xuanzang.text.types import TokenDetail

_WORD = re.compile(r"[$€£¥]?[^\W_]+(?:['’.,\-](?=[A-Za-z0-9])[^\W_]+)*[%°]?")
_IDEOGRAPHS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_COPIED_WORD = re.compile(r"[0-9A-Za-z]+(?:[.,:'\-][0-9A-Za-z]+)*")

_OPENING_SIGNS = frozenset('#@+-±$€£¥%(["~*&')
_CLOSING_SIGNS = frozenset(')]%°"*+')
_SAME_SIGNS = str.maketrans(
    {**dict.fromkeys("“”„「」『』«»《》", '"'), **dict.fromkeys("−－–", "-"), "￥": "¥", "【": "[", "】": "]"}
)

# Shorter ones are found within words by chance.
_MIN_CHARACTERS_WITHIN_WORDS = 3

Span: TypeAlias = tuple[int, int]
"""First character, and the one after the last."""


class Source(NamedTuple):
    """Characters of a block's text that a part of a word comes from."""

    start: int
    end: int
    weight: int
    """Number of characters of that part."""


class Word(NamedTuple):
    """Characters of a translation that stay together, and their origin."""

    start: int
    end: int
    is_punctuation: bool
    sources: tuple[Source, ...]
    """None if it comes from nothing in particular."""
    weight: int
    middle: float
    """Middle of its origin, if known."""

    def share_in(self, start: int, end: int) -> float:
        """Return how much of it comes from some characters, from -1 for nothing to 1 for all."""
        shared = 0.0
        for first, last, weight in self.sources:
            if first < end and start < last:
                shared += weight * (min(last, end) - max(first, start)) / (last - first)
        return 2 * shared / self.weight - 1


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
    """A block's text and its translation."""

    def __init__(self, source: str, text: str, stretches: Sequence[Stretch]) -> None:
        """Take both, and their stretches, at least one, which cover the source."""
        self._source = source
        self._text = text
        self._stretches = stretches
        self._starts = [stretch.source_start for stretch in stretches]
        self._is_space = [character.isspace() for character in source]
        # The next character from each on that is no space, and the end of the last one before each.
        letters = [len(source) if space else place for place, space in enumerate(self._is_space)]
        self._next = [*accumulate(reversed([*letters, len(source)]), min)][::-1]
        self._last = [0, *accumulate((0 if space else place + 1 for place, space in enumerate(self._is_space)), max)]

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

    def has_words(self, start: int, end: int) -> bool:
        """Return whether there are letters or digits among some characters of the text."""
        return any(map(str.isalnum, self._source[start:end]))

    def translates_words(self, place: Span) -> bool:
        """Return whether there are letters or digits among some characters of the translation."""
        return any(map(str.isalnum, self._text[slice(*place)]))

    def is_latin(self, place: int) -> bool:
        """Return whether a character of the translation is not a word on its own."""
        return not _IDEOGRAPHS.match(self._text, place)

    def ends_soon(self, place: int, sentence: Stretch) -> bool:
        """Return whether only punctuation follows a place of a sentence's source."""
        rest = self._source[place : sentence.source_end].strip()
        return bool(rest) and not any(map(str.isalnum, rest))

    def is_sign_before(self, source: int, place: int) -> bool:
        """Return whether the sign at a character of the source is in the translation before a place, and not at it."""
        sign = _sign(self._source[source : source + 1])
        return sign in _OPENING_SIGNS and _sign(self._text[place - 1]) == sign != _sign(self._text[place : place + 1])

    def is_sign_after(self, source: int, place: int) -> bool:
        """Return whether the sign before a place of the source is in the translation at a place, and not before it."""
        sign = _sign(self._source[source - 1 : source])
        return sign in _CLOSING_SIGNS and _sign(self._text[place]) == sign != _sign(self._text[place - 1 : place])

    def without_space(self, place: Span) -> Span:
        """Return characters of the translation without white space around them, unless they are nothing else."""
        stretch = self._text[slice(*place)]
        body = stretch.strip()
        start = place[0] + len(stretch) - len(stretch.lstrip())
        return (start, start + len(body)) if body else place

    def with_edges(self, place: Span, source: Span) -> Span:
        """Return characters of the translation with the white space at its ends, where some source has that, too."""
        start, end = place
        reaches_start = source[0] == 0 and not self._text[:start].strip()
        reaches_end = source[1] == len(self._source) and not self._text[end:].strip()
        return 0 if reaches_start else start, len(self._text) if reaches_end else end

    def copied_part(self, word: Word, source: Span) -> Span | None:
        """Return the part of a word of the translation that is some part of the same word of the text, as 2 of H2O."""
        for start, end, _ in word.sources:
            is_same = self._source[start:end].casefold() == self._text[word.start : word.end].casefold()
            is_same = is_same and end - start == word.end - word.start
            if is_same and start <= source[0] and source[1] <= end and (start, end) != source:
                return word.start + source[0] - start, word.start + source[1] - start
        return None


def aligned_words(
    tokens: Iterable[TokenDetail],
    text: str,
    offset: int,
    *,
    source: str,
    sentence: Span,
    verbatim: Iterable[Span],
    terms: Iterable[tuple[Span, Span]] = (),
) -> tuple[Word, ...]:
    """Align the words of a sentence's translation; return words and punctuation in their order.

    Args:
        tokens: Tokens of the translation, with spans in `source`, the block's text, as `sentence` and `verbatim` are.
        offset: Place of the translation in that of the block.
        terms: Places of required translations in the translation, with those of their terms in the block's text.
    """
    placed = _placed_tokens(tokens, len(text))
    originals = _copied_words(text, source[slice(*sentence)], sentence[0])
    copies = [*copies_of(text, source, verbatim), *terms]
    borders = [border for place, _ in copies for border in place]
    words: list[Word] = []
    first = 0
    stretches = pairwise(sorted({0, *borders, len(text)}))
    for start, end, is_punctuation in (span for stretch in stretches for span in _word_spans(text, *stretch)):
        while first < len(placed) and placed[first].end <= start:
            first += 1
        sources = list(_attended(placed[first : first + end - start], source, end, is_punctuation=is_punctuation))
        if (start, end) in originals:
            sources = [Source(*originals[start, end], 1)]
        sources = _corrected(sources, start, end, copies)
        weight = sum(source.weight for source in sources)
        middle = sum(source.weight * (source.start + source.end) for source in sources) / (2 * max(weight, 1))
        words.append(Word(offset + start, offset + end, is_punctuation, tuple(sources), weight, middle))
    return tuple(words)


def _sign(character: str) -> str:
    """Return a sign in the form used to compare scripts."""
    return unicodedata.normalize("NFKC", character.translate(_SAME_SIGNS))


class _PlacedToken(NamedTuple):
    start: int
    end: int
    text: str
    source: Span


def _placed_tokens(tokens: Iterable[TokenDetail], length: int) -> list[_PlacedToken]:
    """Return the places of the tokens that have characters."""
    placed = []
    end = 0
    for token in tokens:
        start, end = end, min(end + len(token.text), length)
        if start < end:
            placed.append(_PlacedToken(start, end, token.text, (token.source_start, token.source_end)))
    return placed


def _attended(tokens: Iterable[_PlacedToken], text: str, end: int, *, is_punctuation: bool) -> Iterator[Source]:
    """Yield the sources of a word before an end.

    A token that continues a word often attends to the end of the sentence, which says nothing: words come from words.
    """
    for token in takewhile(lambda token: token.start < end, tokens):
        start, stop = token.source
        weight = sum(map(str.isalnum, token.text))
        if is_punctuation == (weight == 0) and start < stop:
            attends_to_word = any(map(str.isalnum, text[start:stop]))
            if attends_to_word != is_punctuation:
                yield Source(start, stop, max(1, weight))


def copies_of(text: str, source: str, verbatim: Iterable[Span]) -> Iterator[tuple[Span, Span]]:
    """Find untranslated parts in the translation, as separate words; yield both places."""
    ends: dict[str, int] = {}
    for start, end in verbatim:
        original = source[start:end].strip()
        if original and (copy := _copy(text, original, ends.get(original, 0))):
            ends[original] = copy[1]
            yield copy, (start, end)


def _copy(text: str, original: str, start: int) -> Span | None:
    before = r"(?<![^\W_])" if original[0].isalnum() else ""
    after = r"(?![^\W_])" if original[-1].isalnum() else ""
    found = re.compile(before + re.escape(original) + after).search(text, start)
    if found:
        return found.span()
    # The model may have left out the space before it.
    place = text.find(original, start) if len(original) >= _MIN_CHARACTERS_WITHIN_WORDS else -1
    return (place, place + len(original)) if place >= 0 else None


def _corrected(sources: list[Source], start: int, end: int, copies: Iterable[tuple[Span, Span]]) -> list[Source]:
    """Return the sources of a word; only copied parts come from their originals."""
    for place, original in copies:
        if place[0] <= start and end <= place[1]:
            return [Source(*original, 1)]
        sources = [each for each in sources if not (original[0] <= each.start and each.end <= original[1])]
    return sources


def _word_spans(text: str, start: int, stop: int) -> Iterator[tuple[int, int, bool]]:
    """Yield the places of words, of ideographs and of punctuation marks one by one, and whether they are the last."""
    end = start
    for word in _WORD.finditer(text, start, stop):
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
    yield from _marks(text, end, stop)


def _marks(text: str, start: int, end: int) -> Iterator[tuple[int, int, bool]]:
    return ((place, place + 1, True) for place in range(start, end) if not text[place].isspace())


def _copied_words(text: str, sentence: str, offset: int) -> dict[Span, Span]:
    """Return the places of Latin words and numbers that are once in each; they need no attention to be aligned."""
    ours, theirs = (list(_COPIED_WORD.finditer(each)) for each in (text, sentence))
    counts = [Counter(map(_copied_form, each)) for each in (ours, theirs)]
    places = {_copied_form(match): (offset + match.start(), offset + match.end()) for match in theirs}
    forms = ((match.span(), _copied_form(match)) for match in ours)
    return {span: places[form] for span, form in forms if all(count[form] == 1 for count in counts)}


def _copied_form(word: re.Match[str]) -> str:
    """Return a word as it is compared: a model may write "M2" for "m2"."""
    return word[0].casefold() if any(map(str.isdigit, word[0])) else word[0]
