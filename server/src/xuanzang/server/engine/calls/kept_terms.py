"""Terms of a sentence: how its search keeps them, and what became of them in a translation.

The model reads translations in the place of their terms, and is free in what it writes. Only where it leaves one out is
the same source searched again, and that search requires them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from xuanzang.server.engine.decoding.phrases.automaton import RequiredPhrase, RequiredPhrases
from xuanzang.server.engine.errors import FieldViolation, InvalidInputError
from xuanzang.server.engine.models.loaded import TargetConstraints
from xuanzang.server.engine.terminology.source_terms import TextWithTerms, with_terms
from xuanzang.server.engine.terminology.terms import FoundTerm
from xuanzang.server.engine.text.codec import Segment, TextCodec
from xuanzang.server.engine.text.offsets import Span, moved
from xuanzang.server.engine.text.words import find_whole
from xuanzang.server.engine.types import GlossaryMatch, GlossaryOutcome
from xuanzang.server.engine.variants import Variant

MAX_PHRASES = 64
"""Terms that one sentence may have to keep."""
MAX_PHRASE_TOKENS = 256
"""Tokens of all of them together."""


class _Judged(NamedTuple):
    """A term, and what may be done to keep it."""

    term: FoundTerm
    refusal: GlossaryOutcome | None
    """Why it is not kept; None if it is."""
    target: str = ""
    """The translation that the model reads in its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceTerms:
    """Terms of one sentence, and how its search keeps them."""

    found: tuple[tuple[FoundTerm, GlossaryOutcome | None], ...] = ()
    """Each term, with the reason why it is not kept; spans are those in the whole text."""
    phrases: RequiredPhrases | None = None
    """What a search requires to keep them; None for nothing."""
    source: TextWithTerms | None = None
    """The sentence with translations in it; None if the model reads it as it is."""
    source_ids: tuple[int, ...] = ()
    """Its ids."""
    are_in_source: bool = False
    """Whether all terms to keep are in the source, so that a search need not require them."""

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

    def matches(self, text: str) -> tuple[GlossaryMatch, ...]:
        """Say what became of each term in a translation."""
        places = _Places(text)
        # Long translations first: short ones may stand within them, and must have places of their own.
        longest = sorted(self.found, key=lambda found: -max(map(len, found[0].targets)))
        kept = {term.start: places.take(term.targets) for term, _ in longest}
        return tuple(_match(term, *kept[term.start], reason) for term, reason in self.found)


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
    """Plan how the terms of a sentence are kept.

    Args:
        found: Terms of the sentence.
        codec: Codec between the languages.
        segment: The sentence.
        start: Its first character in the text that the terms are found in.
        suppressed_texts: Texts that no translation may hold.
        max_tokens: Target tokens that the phrases may have together.
        in_source: Whether the model reads translations in the place of terms.

    Raises:
        InvalidInputError: The suppressed texts exclude all translations of a term.
    """
    if not found:
        return NO_SENTENCE_TERMS
    judged, phrases = _judged(found, codec, suppressed_texts, min(max_tokens, MAX_PHRASE_TOKENS))
    kept = [(term, target) for term, refusal, target in judged if refusal is None]
    put = [each for each in kept if in_source and _is_put(*each, codec)]
    source, source_ids = _with_terms(segment, start, put, codec) if put else (None, ())
    required = RequiredPhrases(phrases=phrases, classes=codec.target_phrases.classes) if phrases else None
    return SentenceTerms(
        found=tuple((term, refusal) for term, refusal, _ in judged),
        phrases=required,
        source=source,
        source_ids=source_ids,
        are_in_source=all(source and each in put for each in kept if _differs(*each)),
    )


def _judged(
    found: Sequence[FoundTerm], codec: TextCodec, suppressed_texts: Sequence[str], budget: int
) -> tuple[list[_Judged], tuple[RequiredPhrase, ...]]:
    """Say of each term whether it can be kept, and what a search must require for that."""
    required: Counter[tuple[Variant, ...]] = Counter()
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
            required[variants] += 1
            tokens += shortest
            judged.append(_Judged(term, None, next(iter(writable))))
    return judged, tuple(RequiredPhrase(variants=variants, count=count) for variants, count in required.items())


def _differs(term: FoundTerm, target: str) -> bool:
    """Return whether the source lacks what the translation must hold: protected texts are in it already."""
    return term.pattern is None and target != term.source


def _is_put(term: FoundTerm, target: str, codec: TextCodec) -> bool:
    # A name that stays as it is gets the spaces of a translation.
    return term.pattern is None and codec.can_read(target)


def _with_terms(
    segment: Segment, start: int, put: Sequence[tuple[FoundTerm, str]], codec: TextCodec
) -> tuple[TextWithTerms | None, tuple[int, ...]]:
    """Return the sentence with translations in it, and its ids; None if it gets too long for the model."""
    places = [((term.start - start, term.end - start), target) for term, target in put]
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


class _Places:
    """Places of a translation, each of which keeps one term."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._taken: list[tuple[int, int]] = []

    def take(self, targets: Sequence[str]) -> tuple[str, int]:
        """Take the first of some texts that occurs where no other was taken; return it and its place, or "" and -1."""
        for target in targets:
            place = find_whole(self._text, target)
            while place >= 0 and (end := self._end_of_taken(place, place + len(target))):
                place = find_whole(self._text, target, end)
            if place >= 0:
                self._taken.append((place, place + len(target)))
                return target, place
        return "", -1

    def _end_of_taken(self, start: int, end: int) -> int:
        """Return the greatest end of what was taken of some characters; 0 if they are free."""
        return max((last for first, last in self._taken if first < end and start < last), default=0)


def _match(term: FoundTerm, target: str, place: int, reason: GlossaryOutcome | None) -> GlossaryMatch:
    missed = reason or GlossaryOutcome.NOT_REACHED
    return GlossaryMatch(
        source=term.source,
        source_start=term.start,
        source_end=term.end,
        target=target,
        outcome=GlossaryOutcome.HONOURED if target else missed,
        pattern=term.pattern,
        target_start=place,
    )
