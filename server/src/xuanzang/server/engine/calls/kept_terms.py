"""Terms of a sentence: how its search keeps them.

The model reads translations in the place of their terms, and writes freely. Only where all hypotheses
leaves one out is the same source searched again, and that search requires them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from xuanzang.server.engine.decoding.phrase_automaton import RequiredPhrase, RequiredPhrases
from xuanzang.server.engine.errors import FieldViolation, InvalidInputError
from xuanzang.server.engine.models.loaded import TargetConstraints
from xuanzang.text.codec import Segment, TextCodec
from xuanzang.text.offsets import Span, moved
from xuanzang.text.terminology.carriers import as_read, has_quotes
from xuanzang.text.terminology.source_terms import TextWithTerms, with_terms
from xuanzang.text.terminology.target_terms import TargetTerms
from xuanzang.text.terminology.terms import FoundTerm
from xuanzang.text.types import GlossaryOutcome, Variant

MAX_PHRASES = 64
"""Terms that one sentence may have to keep."""
MAX_PHRASE_TOKENS = 256
"""Tokens of all of them together."""


class _Judged(NamedTuple):
    """A term, and the means to keep it."""

    term: FoundTerm
    refusal: GlossaryOutcome | None
    """Why it is not kept; None if it is."""
    target: str = ""
    """The translation that the model reads in its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceTerms:
    """Terms of one sentence, and how its search keeps them."""

    target: TargetTerms | None = None
    """Terms that translations must hold; None for none."""
    phrases: RequiredPhrases | None = None
    """Phrases that a search requires to keep them; None for none."""
    source: TextWithTerms | None = None
    """The sentence with translations in it; None if the model reads it unchanged."""
    source_ids: tuple[int, ...] = ()
    """Its ids."""
    are_in_source: bool = False
    """True if all terms to keep are in the source, so that a search need not require them."""

    def added_to(self, constraints: TargetConstraints) -> TargetConstraints:
        """Return constraints that hold for the sentence, too."""
        if self.phrases is None:
            return constraints
        tokens = self.phrases.tokens
        if self.are_in_source:
            return replace(constraints, expected_phrases=self.phrases, phrase_tokens=tokens)
        return replace(constraints, phrases=self.phrases.compiled(), phrase_tokens=tokens)

    def offsets(self, segment: Segment, codec: TextCodec, start: int) -> tuple[Span, ...]:
        """Find the characters of a text that the ids of the sentence stand for."""
        if self.source is None:
            return moved(codec.sentence_offsets(segment.text), start)
        return moved(self.source.before(codec.sentence_offsets(self.source.text)), start)


NO_SENTENCE_TERMS = SentenceTerms()
"""Terms of a sentence that has none."""


def plan_terms(
    found: Sequence[FoundTerm],
    codec: TextCodec,
    *,
    segment: Segment,
    start: int,
    suppressed_texts: Sequence[str],
    max_tokens: int,
    in_source: bool,
) -> SentenceTerms:
    """Plan how the terms of a sentence are kept, which begins at `start` of the text that they are found in.

    `max_tokens`: target tokens that the phrases may have together; `in_source`: whether the model reads translations in
    the place of terms. InvalidInputError: the suppressed texts exclude all translations of a term.
    """
    if not found:
        return NO_SENTENCE_TERMS
    judged, phrases = _judged(found, codec, suppressed_texts, min(max_tokens, MAX_PHRASE_TOKENS))
    kept = [(term, target) for term, refusal, target in judged if refusal is None]
    put = [each for each in kept if in_source and _is_put(*each, codec)]
    differing = [each for each in kept if _differs(*each)]
    all_put = all(each in put for each in differing)
    # Quotes are dropped again: what the caller or a term puts in quotes stays in them.
    may_quote = all_put and not has_quotes(segment.text) and not any(has_quotes(target) for _, target in put)
    source, source_ids = _with_terms(segment, start, put, codec, may_quote=may_quote) if put else (None, ())
    are_in_source = all_put and (source is not None or not differing)
    required = RequiredPhrases(phrases=phrases, classes=codec.target_phrases.classes) if phrases else None
    return SentenceTerms(
        target=TargetTerms(
            found=tuple((term, refusal) for term, refusal, _ in judged),
            is_english=codec.target_language == "en",
            respells=are_in_source,
            begins_sentence=not segment.is_forced_cut,
            drops_quotes=source is not None and may_quote and has_quotes(source.text),
        ),
        phrases=required,
        source=source,
        source_ids=source_ids,
        are_in_source=are_in_source,
    )


def _judged(
    found: Sequence[FoundTerm], codec: TextCodec, suppressed_texts: Sequence[str], budget: int
) -> tuple[list[_Judged], tuple[RequiredPhrase, ...]]:
    """Say of each term whether it can be kept, and what a search must require for that."""
    required: Counter[tuple[tuple[Variant, ...], bool]] = Counter()
    judged: list[_Judged] = []
    tokens = 0
    for term in found:
        writable = _writable(term, codec, suppressed_texts)
        variants = tuple(variant for each in writable.values() for variant in each)
        shortest = min((len(variant.ids) for variant in variants), default=0)
        if not variants:
            judged.append(_Judged(term, GlossaryOutcome.NOT_WRITABLE))
        elif tokens + shortest > budget or required.total() == MAX_PHRASES:
            judged.append(_Judged(term, GlossaryOutcome.NO_ROOM))
        else:
            required[variants, term.is_ordered] += 1
            tokens += shortest
            judged.append(_Judged(term, None, next(iter(writable))))
    phrases = (
        RequiredPhrase(variants=variants, count=count, is_ordered=is_ordered)
        for (variants, is_ordered), count in required.items()
    )
    return judged, tuple(phrases)


def _differs(term: FoundTerm, target: str) -> bool:
    """Return whether the source lacks what the translation must hold: protected texts are in it already."""
    return term.pattern is None and target != term.source


def _is_put(term: FoundTerm, target: str, codec: TextCodec) -> bool:
    # An unchanged name gets the spaces of a translation.
    return term.pattern is None and codec.can_read(target)


def _with_terms(
    segment: Segment, start: int, put: Sequence[tuple[FoundTerm, str]], codec: TextCodec, *, may_quote: bool
) -> tuple[TextWithTerms | None, tuple[int, ...]]:
    """Return the sentence with translations in it, and its ids; None if it gets too long for the model."""
    languages = codec.source_language, codec.target_language
    places = [
        (place, as_read(segment.text, place, target, languages=languages, may_quote=may_quote))
        for place, target in (((term.start - start, term.end - start), target) for term, target in put)
    ]
    source = with_terms(segment.text, places)
    source_ids = tuple(codec.encode(source.text))
    return (source, source_ids) if len(source_ids) <= codec.max_source_length else (None, ())


def _writable(term: FoundTerm, codec: TextCodec, suppressed: Sequence[str]) -> dict[str, tuple[Variant, ...]]:
    """Return the translations of a term that the model can write and that hold no suppressed text, and how."""
    targets = [target for target in term.targets if not any(text in target for text in suppressed)]
    if not targets:
        description = "excludes every translation of a term that is to be kept"
        raise InvalidInputError([FieldViolation(field="options.suppressed_texts", description=description)])
    variants = {target: codec.target_phrases.variants(target) for target in targets}
    return {target: each for target, each in variants.items() if each}
