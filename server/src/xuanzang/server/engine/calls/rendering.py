"""Text of the hypotheses that a search finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from xuanzang.server.engine.decoding.hypotheses import Sentence, TargetHypothesis, TokenDetails
from xuanzang.server.engine.quality import SentenceAssessor
from xuanzang.server.engine.scheduling.request import SentenceTimeline
from xuanzang.server.engine.types import FinishReason, Hypothesis
from xuanzang.text.codec import TextCodec
from xuanzang.text.offsets import Span
from xuanzang.text.terminology.target_terms import TargetTerms
from xuanzang.text.terminology.terms import FoundTerm
from xuanzang.text.traditional import Kept, TraditionalWriter
from xuanzang.text.types import GlossaryOutcome, TokenDetail


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceRenderer:
    """Turns the ids found for one sentence into hypotheses for callers."""

    codec: TextCodec
    source_spans: Sequence[Span] = ()
    """Characters of the text that each source token stands for; empty if token details are not wanted."""
    source_with_terms: str = ""
    """The sentence as the model reads it, with translations in the place of terms; empty if it reads the caller's."""
    terms: TargetTerms | None = None
    """Terms that translations must hold; None for none."""
    assessor: SentenceAssessor | None = None
    """Assessor of the hypotheses; None if their quality is not wanted."""
    writer: TraditionalWriter | None = None
    """Converter of the model's output; None for none."""
    written: Mapping[str, str] = field(default_factory=dict)
    """Texts of the caller that the model writes in another way, by that way."""
    prefix: str = ""
    """Text that every hypothesis begins with, as the model writes it; the caller's is in `written`."""
    looks_at_amounts: bool = False
    """True if a translation that has lost an amount is worth another search."""
    opening: TargetHypothesis | None = None
    """Forced beginning of all hypotheses, found by an earlier search, whose score they lack."""

    def render(self, sentence: Sentence, found: TargetHypothesis, *, cut: FinishReason) -> Hypothesis:
        """Make a hypothesis for callers; `cut` says why it ended, if the model did not end it."""
        whole = found if self.opening is None else _with_opening(sentence, found, self.opening)
        text = self.text_of(whole.target_ids)
        made = Hypothesis(
            text=text,
            score=whole.score,
            token_count=whole.token_count,
            finish_reason=FinishReason.END_OF_SENTENCE if whole.finished else cut,
            tokens=self._token_details(whole, whole.details) if whole.details and self.source_spans else (),
            matches=self.terms.matches(text) if self.terms else (),
            quality=self.assessor.assess(sentence, whole, text) if self.assessor else None,
        )
        return self._written(made, self.writer) if self.writer else made

    def text_of(self, target_ids: Sequence[int]) -> str:
        """Return the text of a hypothesis, as the model's language is written, with its terms spelled as asked."""
        text = self.codec.decode(target_ids)
        return self.terms.spelled(text) if self.terms else text

    def missed_terms(self, text: str) -> int:
        """Return how many terms a hypothesis with a text lacks that a search can require."""
        return self.terms.missed(text) if self.terms else 0

    @property
    def has_order(self) -> bool:
        """True if several terms must keep their order."""
        return self.terms is not None and self.terms.has_order

    def is_in_order(self, text: str) -> bool:
        """Return whether a hypothesis with a text has its ordered terms in their order."""
        return self.terms is None or self.terms.is_in_order(text)

    def holds_terms(self, target_ids: Sequence[int]) -> bool:
        """Return whether every hypothesis that begins with some ids holds all terms that a search can require.

        Their spelling stays: text that a caller has read does not change.
        """
        if self.terms is None:
            return True
        text = self.codec.decode(target_ids)
        # Two more characters behind a term show that it ends there: "C" may become "C++".
        are_held = all(
            match.target_start + len(match.target) + 2 <= len(text) and match.outcome is not GlossaryOutcome.NOT_REACHED
            for match in self.terms.matches(text)
        )
        return are_held and self.terms.stays(text)

    def _written(self, made: Hypothesis, writer: TraditionalWriter) -> Hypothesis:
        """Return a hypothesis in the spelling of the target language."""
        placed = [(match.target_start, match.target) for match in made.matches if match.target_start >= 0]
        if self.prefix and made.text.startswith(self.prefix) and all(start >= len(self.prefix) for start, _ in placed):
            placed.append((0, self.prefix))
        kept = sorted(Kept(start, start + len(text), self.written.get(text, text)) for start, text in placed)
        text = writer.write(made.text, kept)
        tokens = writer.write_tokens([token.text for token in made.tokens], text)
        before = {each.start: len(writer.write(made.text[: each.start], kept[:i])) for i, each in enumerate(kept)}
        return replace(
            made,
            text=text,
            tokens=tuple(replace(token, text=part) for token, part in zip(made.tokens, tokens, strict=True)),
            matches=tuple(
                replace(
                    match,
                    target=self.written.get(match.target, match.target),
                    target_start=before.get(match.target_start, match.target_start),
                )
                for match in made.matches
            ),
        )

    def _token_details(self, hypothesis: TargetHypothesis, details: TokenDetails) -> tuple[TokenDetail, ...]:
        texts = self.codec.target.token_texts(hypothesis.target_ids)
        if hypothesis.finished:
            texts.append("")
        if self.terms:
            texts = self.terms.spelled_tokens(texts)
        spans = [self.source_spans[position] for position in details.alignment]
        return tuple(
            TokenDetail(text=text, score=score, source_start=start, source_end=end)
            for text, score, (start, end) in zip(texts, details.scores, spans, strict=True)
        )


class SentenceOrigin(NamedTuple):
    """The text of a sentence whose translation a second model reads."""

    text: str
    start: int
    """Its first character in its text or block."""
    terms: Sequence[FoundTerm]
    """Terms that the second model keeps, with places in the text or block."""


class PlannedSearch(NamedTuple):
    """A sentence to search, and the renderer of its hypotheses."""

    sentence: Sentence
    renderer: SentenceRenderer
    lexicon_ids: tuple[int, ...] = ()
    """The whole translation, if the lexicon of the bundle has it; see `expansion.lexicon_first`."""
    origin: SentenceOrigin | None = None
    """The sentence as a text, if a second model reads its translation."""


class SentenceResult(NamedTuple):
    """Hypotheses of one sentence, best first, as ids and as text, and when they were found."""

    found: Sequence[TargetHypothesis]
    hypotheses: Sequence[Hypothesis]
    timeline: SentenceTimeline


def _with_opening(sentence: Sentence, found: TargetHypothesis, opening: TargetHypothesis) -> TargetHypothesis:
    """Return a hypothesis as if its opening had not been forced: with the opening's score in its own."""
    details = found.details
    if details:
        last = len(opening.target_ids) - 1
        scores = [opening.score if position == last else score for position, score in enumerate(details.scores)]
        details = details._replace(scores=scores)
    added = opening.score / found.token_count**sentence.options.decoding.length_penalty
    return replace(found, score=found.score + added, details=details)
