"""Terms of a sentence: the phrases that its search requires, and what became of them in a translation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from xuanzang.server.engine.decoding.phrases.automaton import PhraseAutomaton, RequiredPhrase, compile_phrases
from xuanzang.server.engine.errors import FieldViolation, InvalidInputError
from xuanzang.server.engine.models.loaded import TargetConstraints
from xuanzang.server.engine.terminology.terms import FoundTerm
from xuanzang.server.engine.text.codec import TextCodec
from xuanzang.server.engine.text.words import find_whole
from xuanzang.server.engine.types import GlossaryMatch, GlossaryOutcome
from xuanzang.server.engine.variants import Variant

MAX_PHRASES = 64
"""Terms that one sentence may have to keep."""
MAX_PHRASE_TOKENS = 256
"""Tokens of all of them together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceTerms:
    """Terms of one sentence, and what its search requires of them."""

    found: tuple[tuple[FoundTerm, GlossaryOutcome | None], ...] = ()
    """Each term, with the reason why the search does not require it; spans are those in the whole text."""
    phrases: PhraseAutomaton | None = None
    """What the search requires; None for nothing."""
    tokens: int = 0
    """Target tokens that the required phrases have at the least."""

    def added_to(self, constraints: TargetConstraints) -> TargetConstraints:
        """Return constraints that hold for the sentence, too."""
        return replace(constraints, phrases=self.phrases, phrase_tokens=self.tokens) if self.phrases else constraints

    def matches(self, text: str) -> tuple[GlossaryMatch, ...]:
        """Say what became of each term in a translation.

        Args:
            text: Translation of the sentence.
        """
        places = _Places(text)
        # Long translations first: short ones may stand within them, and must have places of their own.
        longest = sorted(self.found, key=lambda found: -max(map(len, found[0].targets)))
        kept = {term.start: places.take(term.targets) for term, _ in longest}
        return tuple(_match(term, *kept[term.start], reason) for term, reason in self.found)


NO_SENTENCE_TERMS = SentenceTerms()
"""Terms of a sentence that has none."""


def plan_terms(
    found: Sequence[FoundTerm], codec: TextCodec, *, suppressed_texts: Sequence[str], max_tokens: int
) -> SentenceTerms:
    """Plan what a search requires so that the terms of its sentence are kept.

    Args:
        found: Terms of the sentence.
        codec: Codec into the target language.
        suppressed_texts: Texts that no translation may hold.
        max_tokens: Target tokens that the phrases may have together.

    Returns:
        The terms; those that cannot be required with the reason.

    Raises:
        InvalidInputError: The suppressed texts exclude all translations of a term.
    """
    if not found:
        return NO_SENTENCE_TERMS
    budget = min(max_tokens, MAX_PHRASE_TOKENS)
    required: Counter[tuple[Variant, ...]] = Counter()
    judged: list[tuple[FoundTerm, GlossaryOutcome | None]] = []
    tokens = 0
    for term in found:
        variants = _variants(term, codec, suppressed_texts)
        shortest = min((len(variant.ids) for variant in variants), default=0)
        fits = tokens + shortest <= budget and required.total() < MAX_PHRASES
        if variants and fits:
            required[variants] += 1
            tokens += shortest
        judged.append((term, None if variants and fits else _refusal(variants)))
    phrases = [RequiredPhrase(variants=variants, count=count) for variants, count in required.items()]
    automaton = compile_phrases(phrases, codec.target_phrases.classes) if phrases else None
    return SentenceTerms(found=tuple(judged), phrases=automaton, tokens=automaton.tokens if automaton else 0)


def _variants(term: FoundTerm, codec: TextCodec, suppressed: Sequence[str]) -> tuple[Variant, ...]:
    """Return the ways to write the translations of a term that hold no suppressed text."""
    targets = [target for target in term.targets if not any(text in target for text in suppressed)]
    if not targets:
        description = "excludes every translation of a term that is to be kept"
        raise InvalidInputError([FieldViolation(field="options.suppressed_texts", description=description)])
    return tuple(variant for target in targets for variant in codec.target_phrases.variants(target))


def _refusal(variants: Sequence[Variant]) -> GlossaryOutcome:
    return GlossaryOutcome.NO_ROOM if variants else GlossaryOutcome.NOT_WRITABLE


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
