"""Contents with markup: cut into the sentences of their blocks, and written again around their translations."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, islice
from typing import NamedTuple, Protocol

from xuanzang.text.codec import Segment, TextCodec
from xuanzang.text.markup.alignment import Alignment, Span, Stretch, aligned_words
from xuanzang.text.markup.document import Block, Inline
from xuanzang.text.markup.placement import placed, rendered
from xuanzang.text.numbers.quantities import numbers_in_digits, numbers_of
from xuanzang.text.terminology.terms import NO_TERMS, Terms
from xuanzang.text.types import GlossaryMatch, TokenDetail


class TranslatedSegment(Protocol):
    """A segment of a block in translation; a copied one is unchanged."""

    @property
    def text(self) -> str:
        """Its text."""

    @property
    def tokens(self) -> Sequence[TokenDetail]:
        """Details of its tokens, with places in the text of the block."""

    @property
    def matches(self) -> Sequence[GlossaryMatch]:
        """Terms that it has, with places in the text of the block."""


class SplitBlock(NamedTuple):
    """A block of content, and its segments."""

    block: Block
    segments: tuple[Segment, ...]
    nested: tuple[tuple[str | SplitBlock, ...], ...] = ()
    """Parts of its placeholders that are translated, in the order of these."""

    @property
    def verbatim(self) -> tuple[Span, ...]:
        """Places of untranslated parts in its text."""
        return tuple((inline.start, inline.end) for inline in _all(self.block.inlines) if inline.is_verbatim)

    @property
    def placeholders(self) -> tuple[Inline, ...]:
        """Placeholders that a word of its text stands in for, in their order."""
        return tuple(inline for inline in _all(self.block.inlines) if inline.placeholder)

    @property
    def blocks(self) -> Iterator[SplitBlock]:
        """The block itself, and those within it."""
        yield self
        for parts in self.nested:
            yield from _blocks(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitDocument:
    """Content whose blocks are split into sentences."""

    content: str
    parts: tuple[str | SplitBlock, ...]
    """Blocks, and the unchanged content between them."""

    @property
    def blocks(self) -> list[SplitBlock]:
        """Blocks in their order, those within placeholders after the block around them."""
        return list(_blocks(self.parts))

    @property
    def segments(self) -> list[Segment]:
        """Segments of all blocks."""
        return [segment for part in self.blocks for segment in part.segments]


def _blocks(parts: Sequence[str | SplitBlock]) -> Iterator[SplitBlock]:
    for part in parts:
        if not isinstance(part, str):
            yield from part.blocks


def _all(inlines: Sequence[Inline]) -> Iterator[Inline]:
    """Yield elements and those within them, in the order of the text."""
    for inline in inlines:
        yield inline
        yield from _all(inline.children)


def split_document(
    content: str, parts: Sequence[str | Block], codec: TextCodec, *, refuse_long: bool, terms: Terms = NO_TERMS
) -> SplitDocument:
    """Cut the blocks of a content into sentences that never end within a term.

    With `refuse_long` a stretch without comma or white space stays whole, however long it is.
    """
    split = partial(_split_part, codec=codec, refuse_long=refuse_long, terms=terms)
    return SplitDocument(content=content, parts=tuple(map(split, parts)))


def _split_part(part: str | Block, *, codec: TextCodec, refuse_long: bool, terms: Terms) -> str | SplitBlock:
    """Return a part unchanged, or the sentences of a block and of those within it."""
    if isinstance(part, str):
        return part
    inlines = list(_all(part.inlines))
    words = [(inline.start, inline.end) for inline in inlines if inline.placeholder]
    unbroken = terms.with_marks(part.text)
    segments = codec.split(part.text, refuse_long=refuse_long, unbroken=unbroken, words=words)
    if words:
        segments = _without_language(segments, words)
    split = partial(_split_part, codec=codec, refuse_long=refuse_long, terms=terms)
    nested = tuple(tuple(map(split, inline.nested)) for inline in inlines if inline.nested)
    return SplitBlock(part, tuple(segments), nested)


def _without_language(segments: Sequence[Segment], words: Sequence[Span]) -> list[Segment]:
    """Return segments; segments whose only letters are placeholders' are copied."""
    result, start = list[Segment](), 0
    remaining = deque(words)
    for segment in segments:
        end, letters = start + len(segment.text), list(segment.text)
        while remaining and remaining[0][0] < end:
            first, last = remaining.popleft()
            letters[first - start : last - start] = " " * (last - first)
        is_copied = segment.source_ids and not any(map(str.isalpha, letters))
        result.append(Segment(text=segment.text, source_ids=()) if is_copied else segment)
        start = end
    return result


def content_matches(split: SplitDocument, parts: Sequence[TranslatedSegment]) -> tuple[GlossaryMatch, ...]:
    """Return what became of the terms, with places in the content instead of those in the text of their block."""
    remaining = iter(parts)
    return tuple(
        replace(match, source_start=start, source_end=end)
        for split_block in split.blocks
        for words in [{(inline.start, inline.end) for inline in split_block.placeholders}]
        for part in islice(remaining, len(split_block.segments))
        for match in part.matches
        if (match.source_start, match.source_end) not in words
        for start, end in [split_block.block.in_content(match.source_start, match.source_end)]
    )


def lost_placeholders(split: SplitDocument, parts: Sequence[TranslatedSegment]) -> tuple[str, ...]:
    """Return the placeholders that a translation does not hold exactly once, or not in the order that they need.

    One whose number the translation has once more, as in "2nd #2", is lost, too: the model has read it as a number.
    """
    remaining = iter(parts)
    return tuple(
        lost
        for split_block in split.blocks
        for lost in _lost(split_block, list(islice(remaining, len(split_block.segments))))
    )


def _lost(split: SplitBlock, parts: Sequence[TranslatedSegment]) -> Iterator[str]:
    remaining, end = deque(split.placeholders), 0
    for segment, part in zip(split.segments, parts, strict=True):
        end += len(segment.text)
        words: dict[str, Inline] = {}
        while remaining and remaining[0].start < end:
            inline = remaining.popleft()
            words[split.block.text[inline.start : inline.end]] = inline
        if words:
            yield from _lost_words(segment.text, part.text, words)
    if split.block.holds_references and split.block.spellings:
        found = Counter(character for part in parts for character in part.text)
        for character, references in split.block.spellings.items():
            yield from references[found[character] :]


def _lost_words(source: str, target: str, words: Mapping[str, Inline]) -> Iterator[str]:
    """Yield the placeholders of a sentence whose words its translation does not hold as it should."""
    last, rest = -1, target
    for word, inline in words.items():
        whole = re.compile(re.escape(word) + (r"(?![0-9])" if word[-1].isdigit() else ""))
        places = [found.start() for found in whole.finditer(target)]
        if len(places) != 1 or (inline.is_ordered and places[0] < last):
            yield inline.placeholder
            continue
        last = places[0] if inline.is_ordered else last
        rest = whole.sub(" ", rest)
        source = source.replace(word, " ", 1)
    if rest.count("%") > source.count("%"):
        # "%d percent" has become "%d%", which is another placeholder.
        yield from islice((each.placeholder for each in words.values() if each.placeholder[0] == "%"), 1)
    if any(map(str.isdigit, rest)):
        new = {*map(str, numbers_in_digits(rest))} - {*map(str, numbers_of(source))}
        yield from (inline.placeholder for word, inline in words.items() if "".join(filter(str.isdigit, word)) in new)


def written(split: SplitDocument, parts: Sequence[TranslatedSegment], codec: TextCodec) -> str:
    """Write a document with its segments in translation, whose tokens say where tags belong."""
    return _written_parts(split.parts, iter(parts), codec)


def _written_parts(parts: Sequence[str | SplitBlock], translated: Iterator[TranslatedSegment], codec: TextCodec) -> str:
    return "".join(part if isinstance(part, str) else _written_block(part, translated, codec) for part in parts)


def _written_block(split: SplitBlock, translated: Iterator[TranslatedSegment], codec: TextCodec) -> str:
    block = split.block
    parts = list(islice(translated, len(split.segments)))
    pieces = codec.joiner().pieces([part.text for part in parts])
    text = "".join(pieces)
    alignment = Alignment(block.text, text, list(_stretches(split, parts, pieces)))
    nested = iter([_written_parts(each, translated, codec) for each in split.nested])
    inlines = placed(_filled(block.inlines, nested), alignment, (0, len(text)))
    return rendered(text, inlines, block, spaced=codec.is_spaced)


def _filled(inlines: Sequence[Inline], nested: Iterator[str]) -> tuple[Inline, ...]:
    """Return elements with the translations of their parts."""
    return tuple(
        replace(
            inline,
            opening=next(nested) if inline.nested else inline.opening,
            children=_filled(inline.children, nested),
        )
        for inline in inlines
    )


def _stretches(split: SplitBlock, parts: Sequence[TranslatedSegment], pieces: Sequence[str]) -> Iterator[Stretch]:
    """Align each segment of a block with its translation."""
    block, segments = split.block, split.segments
    sources = accumulate((len(segment.text) for segment in segments), initial=0)
    ends = accumulate(map(len, pieces))
    verbatim = sorted(split.verbatim)
    for segment, part, source_start, new, end in zip(segments, parts, sources, pieces, ends, strict=False):
        # The addition may begin with a space that is not of the part, or be nothing.
        start, source_end = end - min(len(new), len(part.text)), source_start + len(segment.text)
        words = None
        if segment.source_ids:
            first, last = (bisect_left(verbatim, (place, 0)) for place in (source_start, source_end))
            words = aligned_words(
                part.tokens,
                part.text,
                start,
                source=block.text,
                sentence=(source_start, source_end),
                verbatim=verbatim[first:last],
                terms=_term_places(part.matches),
            )
        yield Stretch(source_start=source_start, source_end=source_end, start=start, end=end, words=words)


def _term_places(matches: Sequence[GlossaryMatch]) -> Iterator[tuple[Span, Span]]:
    """Yield where translations of terms stand, and their terms."""
    for match in matches:
        if match.target:
            place = (match.target_start, match.target_start + len(match.target))
            yield place, (match.source_start, match.source_end)
