"""Contents with markup: cut into the sentences of their blocks, and written again around their translations."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice

from xuanzang.server.engine.calls.results import added, copied, hypotheses_of, merged
from xuanzang.server.engine.markup.alignment import Alignment, Span, Stretch, aligned_words
from xuanzang.server.engine.markup.document import Block, Document, Inline
from xuanzang.server.engine.markup.parsing import parse
from xuanzang.server.engine.markup.placement import placed, rendered
from xuanzang.server.engine.terminology.terms import NO_TERMS, Terms
from xuanzang.server.engine.text.codec import Segment, TextCodec
from xuanzang.server.engine.types import ContentFormat, GlossaryMatch, Hypothesis


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitDocument:
    """A document whose blocks are split into sentences."""

    document: Document
    blocks: tuple[tuple[Segment, ...], ...]
    """Segments of each block."""

    @property
    def segments(self) -> list[Segment]:
        """Segments of all blocks."""
        return [segment for block in self.blocks for segment in block]

    @property
    def verbatim(self) -> list[tuple[Span, ...]]:
        """Places in the text of each block of what is not translated."""
        return [tuple(_verbatim(block.inlines)) for block in self.document.blocks]


def split_document(
    content: str, codec: TextCodec, *, content_format: ContentFormat, refuse_long: bool, terms: Terms = NO_TERMS
) -> SplitDocument:
    """Cut content with markup into sentences, none of which ends within a term.

    With `refuse_long` a stretch without comma or white space stays whole, however long it is.

    Raises:
        MarkupError: The content cannot be read, or is over a limit.
    """
    document = parse(content, content_format)
    blocks = tuple(
        tuple(codec.split(block.text, refuse_long=refuse_long, unbroken=terms.with_marks(block.text)))
        for block in document.blocks
    )
    return SplitDocument(document=document, blocks=blocks)


def with_markup(split: SplitDocument, translated: Iterator[Sequence[Hypothesis]], codec: TextCodec) -> list[Hypothesis]:
    """Put the tags of a document into its translation, by the details of the tokens of its sentences.

    Returns:
        Hypotheses of the document, best first, without token details.
    """
    segments = split.segments
    ranks = hypotheses_of(segments, translated)
    if not ranks:
        return [copied(_written(split, [copied(segment.text) for segment in segments], codec))]
    return [
        replace(merged(parts), text=_written(split, parts, codec), tokens=(), matches=_matches(split, parts))
        for parts in ranks
    ]


def _matches(split: SplitDocument, parts: Sequence[Hypothesis]) -> tuple[GlossaryMatch, ...]:
    """Return what became of the terms, with places in the content instead of those in the text of their block."""
    remaining = iter(parts)
    return tuple(
        replace(match, source_start=start, source_end=end)
        for block, segments in zip(split.document.blocks, split.blocks, strict=True)
        for part in islice(remaining, len(segments))
        for match in part.matches
        for start, end in [block.in_content(match.source_start, match.source_end)]
    )


def _written(split: SplitDocument, parts: Sequence[Hypothesis], codec: TextCodec) -> str:
    """Write a document with one hypothesis of each segment."""
    remaining = iter(parts)
    blocks = iter(split.blocks)
    pieces: list[str] = []
    for part in split.document.parts:
        if isinstance(part, str):
            pieces.append(part)
        else:
            segments = next(blocks)
            pieces.append(_written_block(part, segments, list(islice(remaining, len(segments))), codec))
    return "".join(pieces)


def _written_block(block: Block, segments: Sequence[Segment], parts: Sequence[Hypothesis], codec: TextCodec) -> str:
    pieces = added(parts, codec.joiner())
    text = "".join(pieces)
    alignment = Alignment(block.text, text, list(_stretches(block, segments, parts, pieces)))
    inlines = placed(block.inlines, alignment, (0, len(text)))
    return rendered(text, inlines, block, spaced=codec.is_spaced)


def _stretches(
    block: Block, segments: Sequence[Segment], parts: Sequence[Hypothesis], pieces: Sequence[str]
) -> Iterator[Stretch]:
    """Align each segment of a block with its translation."""
    sources = accumulate((len(segment.text) for segment in segments), initial=0)
    ends = accumulate(map(len, pieces))
    verbatim = sorted(_verbatim(block.inlines))
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
