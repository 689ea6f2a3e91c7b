"""Results of a call: hypotheses of several searches ranked, sentences joined to texts, and texts emitted bit by bit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from xuanzang.server.engine.calls.rendering import SentenceResult
from xuanzang.server.engine.quality import combined
from xuanzang.server.engine.types import FinishReason, Hypothesis
from xuanzang.text.codec import Segment, TextCodec
from xuanzang.text.markup.contents import SplitDocument, content_matches, lost_placeholders, written

# Stands for the bytes of an incomplete character.
_INCOMPLETE = "\ufffd"


def ranked(count: int, owners: Iterable[int], found: Iterable[Iterable[Hypothesis]]) -> list[list[Hypothesis]]:
    """Merge the hypotheses of all searches of each sentence, best first."""
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
        Hypotheses of the document, best first, without token details; if none holds all placeholders, the document.
    """
    segments = split.segments
    ranks = _hypotheses_of(segments, translated)
    if not ranks:
        return [copied(written(split, [copied(segment.text) for segment in segments], codec))]
    lost = [lost_placeholders(split, parts) for parts in ranks]
    whole = [
        replace(_merged(parts), text=written(split, parts, codec), tokens=(), matches=content_matches(split, parts))
        for parts, missing in zip(ranks, lost, strict=True)
        if not missing
    ]
    # Hypotheses that hold all placeholders are preferred.
    return whole or [
        replace(copied(split.content), finish_reason=FinishReason.PLACEHOLDER_LOST, lost_placeholders=lost[0])
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
    """Return a hypothesis of a text with some translated segments, without the text itself."""
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


class TextStreamer:
    """Emits the known part of a translation in the order of the text, and never takes anything back."""

    reads_along = True

    def __init__(
        self,
        segments: Sequence[Segment],
        codec: TextCodec,
        emit: Callable[[str], None],
        *,
        settled: Callable[[str], str] | None = None,
    ) -> None:
        """Begin empty; `emit` gets the next parts of the translation, never empty.

        `settled` returns the final part of a sentence's beginning, as it will be written; None: all of it.
        """
        self._settled = settled
        positions = iter(range(len(segments)))
        # Text of each segment, and the position of its sentence; None for copied text.
        self._segments = [(segment.text, next(positions) if segment.source_ids else None) for segment in segments]
        self._joiner = codec.joiner()
        self._emit = emit
        self._known: dict[int, str] = {}
        self._done: set[int] = set()
        self._current = 0
        self._emitted = ""

    def on_prefix(self, position: int, text: str) -> None:
        """Take the beginning of a sentence that will not change."""
        known = text.rstrip(_INCOMPLETE)
        self._known[position] = self._settled(known) if self._settled else known
        self._advance()

    def on_result(self, position: int, result: SentenceResult) -> None:
        """Take the result of a sentence, best hypothesis first."""
        self._known[position] = result.hypotheses[0].text
        self._done.add(position)
        self._advance()

    def _advance(self) -> None:
        """Emit as much as is known without a gap."""
        if not any(position is not None for _, position in self._segments):
            return
        while self._current < len(self._segments):
            source, position = self._segments[self._current]
            self._add(source if position is None else self._known.get(position, ""))
            if position is not None and position not in self._done:
                return
            self._current += 1
            self._emitted = ""

    def _add(self, text: str) -> None:
        """Emit the new text of the current segment."""
        more, is_last = text[len(self._emitted) :], self._current + 1 == len(self._segments)
        if added := self._joiner.extend(more) if self._emitted else self._joiner.add(more, is_last=is_last):
            self._emit(added)
        self._emitted = text
