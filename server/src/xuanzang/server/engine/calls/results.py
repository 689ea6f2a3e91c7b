"""Results of a call: hypotheses of several searches ranked, translated sentences joined to texts and documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from xuanzang.server.engine.quality import combined
from xuanzang.server.engine.types import FinishReason, Hypothesis
from xuanzang.text.codec import Segment, TextCodec
from xuanzang.text.markup.contents import SplitDocument, content_matches, written


def ranked(count: int, owners: Iterable[int], found: Iterable[Iterable[Hypothesis]]) -> list[list[Hypothesis]]:
    """Bring the hypotheses of all searches of each of so many sentences together, best first."""
    results: list[list[Hypothesis]] = [[] for _ in range(count)]
    for owner, hypotheses in zip(owners, found, strict=True):
        results[owner] += hypotheses
    return [sorted(hypotheses, key=lambda hypothesis: -hypothesis.score) for hypotheses in results]


def joined(
    segments: Sequence[Segment], translated: Iterator[Sequence[Hypothesis]], codec: TextCodec
) -> list[Hypothesis]:
    """Join the sentences of a text, whose hypotheses are taken from `translated`, as many as it has sentences.

    Returns:
        Hypotheses of the text, best first. A text of several sentences has one, as each of them has.
    """
    if len(segments) == 1 and segments[0].source_ids:
        # Most texts are one sentence, with nothing to join.
        return list(next(translated))
    ranks = _hypotheses_of(segments, translated)
    merged = [
        replace(_merged(parts), text="".join(codec.joiner().pieces([part.text for part in parts]))) for parts in ranks
    ]
    return merged or [copied("".join(segment.text for segment in segments))]


def with_markup(split: SplitDocument, translated: Iterator[Sequence[Hypothesis]], codec: TextCodec) -> list[Hypothesis]:
    """Put the tags of a document into its translation, by the details of the tokens of its sentences.

    Returns:
        Hypotheses of the document, best first, without token details.
    """
    segments = split.segments
    ranks = _hypotheses_of(segments, translated)
    if not ranks:
        return [copied(written(split, [copied(segment.text) for segment in segments], codec))]
    return [
        replace(_merged(parts), text=written(split, parts, codec), tokens=(), matches=content_matches(split, parts))
        for parts in ranks
    ]


def _hypotheses_of(segments: Sequence[Segment], translated: Iterator[Sequence[Hypothesis]]) -> list[list[Hypothesis]]:
    """Take the hypotheses of the sentences of a text from `translated`, as many as it has sentences.

    Returns:
        For each hypothesis of the text those of its segments; none if nothing is translated.
    """
    if not any(segment.source_ids for segment in segments):
        return []
    choices = [next(translated) if segment.source_ids else [copied(segment.text)] for segment in segments]
    # Copied text is the same in every hypothesis.
    return [[choice[min(rank, len(choice) - 1)] for choice in choices] for rank in range(max(map(len, choices)))]


def copied(text: str) -> Hypothesis:
    """Return text that is its own translation."""
    return Hypothesis(text=text, score=0.0, token_count=0, finish_reason=FinishReason.COPIED)


def _merged(parts: Sequence[Hypothesis]) -> Hypothesis:
    """Return a hypothesis of a text, some segments of which are translated, without the text itself."""
    sentences = [part for part in parts if part.finish_reason is not FinishReason.COPIED]
    token_count = sum(sentence.token_count for sentence in sentences)
    weighted = sum(sentence.score * sentence.token_count for sentence in sentences)
    unusual = (s.finish_reason for s in sentences if s.finish_reason is not FinishReason.END_OF_SENTENCE)
    return Hypothesis(
        text="",
        score=sentences[0].score if len(sentences) == 1 else weighted / token_count,
        token_count=token_count,
        finish_reason=next(unusual, FinishReason.END_OF_SENTENCE),
        tokens=tuple(token for sentence in sentences for token in sentence.tokens),
        matches=tuple(match for sentence in sentences for match in sentence.matches),
        quality=combined(sentence.quality for sentence in sentences),
    )
