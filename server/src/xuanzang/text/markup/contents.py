"""Contents with markup: cut into the sentences of their blocks, and written again around their translations."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice
from typing import NamedTuple, Protocol

from xuanzang.text.codec import Segment, TextCodec
from xuanzang.text.markup.alignment import Alignment, Span, Stretch, aligned_words
from xuanzang.text.markup.document import Block, Inline
from xuanzang.text.markup.parsing import parse
from xuanzang.text.markup.placement import placed, rendered
from xuanzang.text.terminology.terms import NO_TERMS, Terms
from xuanzang.text.types import ContentFormat, GlossaryMatch, TokenDetail


class TranslatedSegment(Protocol):
    """A segment of a block in translation; one that is copied is as it was."""

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

    @property
    def verbatim(self) -> tuple[Span, ...]:
        """Places in its text of what is not translated."""
        return tuple(_verbatim(self.block.inlines))


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitDocument:
    """Content whose blocks are split into sentences."""

    parts: tuple[str | SplitBlock, ...]
    """Blocks, and what is between them and stays as it is."""

    @property
    def blocks(self) -> list[SplitBlock]:
        """Blocks in their order."""
        return [part for part in self.parts if not isinstance(part, str)]

    @property
    def segments(self) -> list[Segment]:
        """Segments of all blocks."""
        return [segment for part in self.blocks for segment in part.segments]


def split_document(
    content: str, codec: TextCodec, *, content_format: ContentFormat, refuse_long: bool, terms: Terms = NO_TERMS
) -> SplitDocument:
    """Cut content with markup into sentences, none of which ends within a term.

    With `refuse_long` a stretch without comma or white space stays whole, however long it is.

    Raises:
        MarkupError: The content cannot be read, or is over a limit.
    """

    def split(part: str | Block) -> str | SplitBlock:
        if isinstance(part, str):
            return part
        unbroken = terms.with_marks(part.text)
        return SplitBlock(part, tuple(codec.split(part.text, refuse_long=refuse_long, unbroken=unbroken)))

    return SplitDocument(parts=tuple(map(split, parse(content, content_format))))


def content_matches(split: SplitDocument, parts: Sequence[TranslatedSegment]) -> tuple[GlossaryMatch, ...]:
    """Return what became of the terms, with places in the content instead of those in the text of their block."""
    remaining = iter(parts)
    return tuple(
        replace(match, source_start=start, source_end=end)
        for block, segments in split.blocks
        for part in islice(remaining, len(segments))
        for match in part.matches
        for start, end in [block.in_content(match.source_start, match.source_end)]
    )


def written(split: SplitDocument, parts: Sequence[TranslatedSegment], codec: TextCodec) -> str:
    """Write a document with its segments in translation, whose tokens say where tags belong."""
    remaining = iter(parts)
    return "".join(
        part if isinstance(part, str) else _written_block(part, list(islice(remaining, len(part.segments))), codec)
        for part in split.parts
    )


def _written_block(split: SplitBlock, parts: Sequence[TranslatedSegment], codec: TextCodec) -> str:
    block = split.block
    pieces = codec.joiner().pieces([part.text for part in parts])
    text = "".join(pieces)
    alignment = Alignment(block.text, text, list(_stretches(split, parts, pieces)))
    inlines = placed(block.inlines, alignment, (0, len(text)))
    return rendered(text, inlines, block, spaced=codec.is_spaced)


def _stretches(split: SplitBlock, parts: Sequence[TranslatedSegment], pieces: Sequence[str]) -> Iterator[Stretch]:
    """Align each segment of a block with its translation."""
    block, segments = split
    sources = accumulate((len(segment.text) for segment in segments), initial=0)
    ends = accumulate(map(len, pieces))
    verbatim = sorted(split.verbatim)
    for segment, part, source_start, new, end in zip(segments, parts, sources, pieces, ends, strict=False):
        # What is added may begin with a space that is not of the part, or be nothing.
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


def _verbatim(inlines: Sequence[Inline]) -> Iterator[tuple[int, int]]:
    for inline in inlines:
        if inline.is_verbatim:
            yield inline.start, inline.end
        yield from _verbatim(inline.children)
