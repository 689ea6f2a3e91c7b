"""Places of a block's tags in its translation.

An element goes around the contiguous words that come from its text: those whose shares in it have the greatest sum,
where words that come from elsewhere count against. A tag without content, and the borders of an element around several
sentences, go where the fewest words are on the wrong side. Elements are placed within their parents and next to their
siblings, so that whatever the words are, every tag is there once and none cross.
"""

from __future__ import annotations

import re
from bisect import bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import NamedTuple

from xuanzang.text.markup.alignment import Alignment, Span, Stretch, Word
from xuanzang.text.markup.document import Block, Inline

# Weight of a word without an origin: the fewer the better.
_UNKNOWN = -0.05
# Attention to and from punctuation says less than that of words, and that of short words less than that of long ones.
_PUNCTUATION_WEIGHT = 0.3
_LONG = 4
_MIN_WEIGHT = 0.6
_BESIDE_WORDS = re.compile(r"[^\W_\u2e80-\uffef\U00020000-\U0003ffff]")

# A name or an address that ends where its letters do.
_OPEN_NAME = re.compile(r"(?:^|[^\w@#$:])[@#$:]{1,2}[A-Za-z_][\w.-]*$|^(?:https?://|www\.).*[\w/-]$", re.ASCII)

# Marks that need no space behind them, and what a language with spaces writes for them.
_WIDE_MARKS = frozenset("，；：！？。")
_NARROW_MARKS = frozenset(",;:!?.")


class FreeSpace:
    """Characters of a parent, less those of the children that are placed already."""

    def __init__(self, within: Span) -> None:
        self.start, self.end = within
        self._taken: list[Span] = []

    def take(self, place: Span) -> None:
        """Take characters, all of them free."""
        if place[0] < place[1]:
            insort(self._taken, place)

    def nearest(self, place: int) -> int:
        """Return the place, moved to where it is within no sibling."""
        place = min(max(place, self.start), self.end)
        index = bisect_right(self._taken, (place, place)) - 1
        start, end = self._taken[index] if index >= 0 else (place, place)
        if start < place < end:
            return start if place - start < end - place else end
        return place

    def is_free(self, place: int) -> bool:
        """Return whether a character is one of the parent's, and of no sibling."""
        return self.start <= place < self.end and self.gap_of(place, place + 1) is not None

    def gap_of(self, start: int, end: int) -> Span | None:
        """Return the free characters around some characters, or None if one of these is taken."""
        index = bisect_right(self._taken, (start, self.end))
        first = max(self.start, self._taken[index - 1][1] if index else self.start)
        last = min(self.end, self._taken[index][0] if index < len(self._taken) else self.end)
        return (first, last) if first <= start and end <= last else None

    def widest(self, start: int, end: int) -> Span | None:
        """Return the longest free stretch of some characters, or None if all are taken."""
        start, end = max(start, self.start), min(end, self.end)
        best: Span | None = None
        index = max(0, bisect_right(self._taken, (start, self.end)) - 1)
        for place in range(index, len(self._taken) + 1):
            first, last = self._taken[place] if place < len(self._taken) else (self.end, self.end)
            if start < min(first, end) and (best is None or min(first, end) - start > best[1] - best[0]):
                best = (start, min(first, end))
            start = max(start, last)
            if start >= end:
                break
        return best


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """An element at its place in the translation."""

    start: int
    end: int
    inline: Inline
    children: tuple[Placed, ...]


class _Turn(IntEnum):
    """Order in which siblings are placed."""

    FROM_BEFORE = 0
    TO_BEHIND = 1
    SENTENCES = 2
    VERBATIM = 3
    WORDS = 4
    NOTHING = 5


def placed(inlines: Sequence[Inline], alignment: Alignment, within: Span) -> tuple[Placed, ...]:
    """Place the elements of a block or of an element, in the order of the translation."""
    if not inlines:
        return ()
    space = FreeSpace(within)
    places: dict[int, Span] = {}
    for _, index in sorted((_turn(inline, alignment), index) for index, inline in enumerate(inlines)):
        place = _place(inlines[index], alignment, space)
        if place:
            places[index] = place
            space.take(place)
    for index, inline in enumerate(inlines):
        if index not in places:
            places[index] = _fallback(inline, alignment, space)
            space.take(places[index])
    ordered = sorted(places.items(), key=lambda item: (item[1], item[0]))
    return tuple(
        Placed(start=place[0], end=place[1], inline=inline, children=placed(inline.children, alignment, place))
        for inline, place in ((inlines[index], place) for index, place in ordered)
    )


def _fallback(inline: Inline, alignment: Alignment, space: FreeSpace) -> Span:
    """Return the place of an element that no word comes from: the nearest free word if it is around any."""
    border = space.nearest(_border(inline.start, alignment))
    if inline.is_space and (end := _end_of_word(inline.start, alignment)) is not None:
        border = space.nearest(end)
    nothing = (border, border)
    if inline.is_verbatim or inline.start == inline.end or not alignment.has_words(inline.start, inline.end):
        return nothing
    words = alignment.at(alignment.trimmed(inline.start, inline.end)[0]).words or ()
    free = [(w.start, w.end) for w in words if not w.is_punctuation and space.gap_of(w.start, w.end)]
    return min(free, key=lambda word: abs(word[0] + word[1] - 2 * border), default=nothing)


def _turn(inline: Inline, alignment: Alignment) -> _Turn:
    if inline.reaches_start:
        return _Turn.FROM_BEFORE
    if inline.reaches_end:
        return _Turn.TO_BEHIND
    if inline.start == inline.end:
        return _Turn.NOTHING
    if inline.is_verbatim:
        return _Turn.VERBATIM
    start, end = alignment.trimmed(inline.start, inline.end)
    return _Turn.WORDS if alignment.at(start) is alignment.at(end - 1) else _Turn.SENTENCES


def _place(inline: Inline, alignment: Alignment, space: FreeSpace) -> Span | None:
    """Return the place of an element, or None if no word comes from it."""
    if inline.reaches_start:
        return space.start, space.nearest(_border(inline.end, alignment))
    if inline.reaches_end:
        return space.nearest(_border(inline.start, alignment)), space.end
    if inline.start == inline.end:
        return None
    start, end = alignment.trimmed(inline.start, inline.end)
    first, last = alignment.at(start), alignment.at(end - 1)
    if first is not last:
        place = space.widest(_border(start, alignment), _border(end, alignment, is_end=True))
    elif first.words is None:
        place = space.widest(first.start + start - first.source_start, first.start + end - first.source_start)
    else:
        place = _best_words(first, (start, end), alignment, space)
    if place and inline.is_verbatim and not alignment.has_words(start, end) and alignment.translates_words(place):
        # Signs take the place of no words.
        return None
    if place is None:
        return None
    place = alignment.without_space(place)
    if not inline.is_verbatim:
        place = _with_signs(place, (start, end), alignment, space)
    start, end = alignment.with_edges(place, (inline.start, inline.end))
    return max(start, space.start), min(end, space.end)


def _with_signs(place: Span, source: Span, alignment: Alignment, space: FreeSpace) -> Span:
    """Return a place with the signs at the ends of the source, such as the # of #42, if they are next to it."""
    start, end = place
    if space.is_free(start - 1) and alignment.is_sign_before(source[0], start):
        start -= 1
    if space.is_free(end) and alignment.is_sign_after(source[1], end):
        end += 1
    return start, end


def _best_words(sentence: Stretch, source: Span, alignment: Alignment, space: FreeSpace) -> Span | None:
    """Return the neighbouring free words that come from some characters, and from others the least."""
    best, place = 0.0, None
    total, start, gap = 0.0, 0, None
    for word in sentence.words or ():
        if gap is None or word.end > gap[1]:
            gap, total = space.gap_of(word.start, word.end), 0.0
        if gap is None:
            continue
        if part := alignment.copied_part(word, source):
            return part
        if total <= 0:
            total, start = 0.0, word.start
        total += _value(word, source, alignment)
        if total > best:
            best, place = total, (start, word.end)
    return place


def _value(word: Word, source: Span, alignment: Alignment) -> float:
    if not word.sources:
        return _UNKNOWN
    if word.is_punctuation:
        return word.share_in(*source) * _PUNCTUATION_WEIGHT
    is_short = word.end - word.start < _LONG and alignment.is_latin(word.start)
    return word.share_in(*source) * (max(_MIN_WEIGHT, (word.end - word.start) / _LONG) if is_short else 1.0)


def _border(place: int, alignment: Alignment, *, is_end: bool = False) -> int:
    """Return the place in the translation of a place between two characters of the text."""
    stretch = alignment.at(place - 1 if is_end else place)
    if stretch.words is None:
        return min(stretch.start + place - stretch.source_start, stretch.end)
    if place in (stretch.source_start, stretch.source_end):
        return stretch.start if place == stretch.source_start else stretch.end
    before = _words_before(stretch.words, place)
    if before == len(stretch.words) > 0 and stretch.words[-1].is_punctuation and alignment.ends_soon(place, stretch):
        return stretch.words[-1].start
    if before in (0, len(stretch.words)):
        return stretch.end if before else stretch.start
    return stretch.words[before].start if alignment.follows_space(place) else stretch.words[before - 1].end


def _end_of_word(place: int, alignment: Alignment) -> int | None:
    """Return the end of the last word of the translation that comes from the word before a place of the text."""
    words = alignment.at(place - 1).words or ()
    return next((w.end for w in reversed(words) if any(s.start < place <= s.end for s in w.sources)), None)


def _words_before(words: Sequence[Word], place: int) -> int:
    """Return how many words a border has before it, so that the fewest are on the wrong side."""
    wrong = fewest = sum(1 for word in words if word.sources and word.middle < place)
    best = 0
    for number, word in enumerate(words, start=1):
        if word.sources:
            wrong += 1 if word.middle >= place else -1
        if wrong < fewest:
            fewest, best = wrong, number
    return best


def rendered(text: str, inlines: Sequence[Placed], block: Block, *, spaced: bool) -> str:
    """Write a translation with its tags; `spaced`: whether the language has spaces between words."""
    write = _Writer(text, block.text, _speller(block.spellings, block.escapes), spaced)
    return "".join(write.parts(inlines, 0, len(text)))


class _Writer(NamedTuple):
    """Writes parts of a translation with their tags, from left to right."""

    text: str
    source: str
    spell: Callable[[str], str]
    spaced: bool

    def parts(self, placed: Sequence[Placed], start: int, end: int) -> Iterator[str]:
        for element in placed:
            yield self.spell(self.text[start : element.start])
            start = element.end
            if element.inline.is_space:
                # It stands for the adjacent space of the text.
                start += self.text[start : min(start + 1, end)] == " "
                yield element.inline.opening
                continue
            if element.inline.is_verbatim:
                before, after = _spaces(self.text, element, self.source) if self.spaced else ("", self._end(element))
                yield f"{before}{element.inline.opening}{after}"
            else:
                yield element.inline.opening
                yield from self.parts(element.children, element.start, element.end)
                yield element.inline.closing
        yield self.spell(self.text[start:end])

    def _end(self, element: Placed) -> str:
        """Return a space behind a name such as @:key that a program would read on into Chinese, if the source can."""
        inline = element.inline
        follows = self.text[element.end : element.end + 1].isalnum()
        followed = self.source[inline.end : inline.end + 1].isalnum()
        return " " if follows and not followed and _OPEN_NAME.search(inline.placeholder) else ""


def _speller(spellings: Mapping[str, Sequence[str]], escapes: Mapping[str, str]) -> Callable[[str], str]:
    """Return what writes text as markup: characters that the content wrote as references are written so again."""
    left = {character: deque(references) for character, references in spellings.items()}
    if not (characters := {*escapes, *spellings}):
        return str
    special = re.compile(f"[{''.join(map(re.escape, characters))}]")

    def reference(found: re.Match[str]) -> str:
        references = left.get(found[0])
        if not references:
            return escapes[found[0]]
        # The last one serves for any further ones of the translation.
        return references.popleft() if len(references) > 1 else references[0]

    return partial(special.sub, reference)


def _spaces(text: str, element: Placed, source: str) -> tuple[str, str]:
    """Return the spaces between an untranslated part and adjacent words, unless the source has none."""
    inline = element.inline
    character = text[max(0, element.start - 1) : element.start]
    original = source[max(0, inline.start - 1) : inline.start]
    before = _touches(character, original) or (original in _WIDE_MARKS and character in _NARROW_MARKS)
    after = _touches(text[element.end : element.end + 1], source[inline.end : inline.end + 1])
    return " " * before, " " * after


def _touches(character: str, original: str) -> bool:
    return bool(_BESIDE_WORDS.match(character)) and not _BESIDE_WORDS.match(original)
