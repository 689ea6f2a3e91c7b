"""Amounts of a sentence: what another search must require where a translation has lost some."""

from __future__ import annotations

from collections import Counter

from xuanzang.server.engine.calls.kept_terms import MAX_PHRASE_TOKENS
from xuanzang.server.engine.decoding.phrase_automaton import RequiredPhrase, RequiredPhrases
from xuanzang.text.codec import TextCodec
from xuanzang.text.numbers.losses import lost_amounts, may_have_amounts, new_numbers

MAX_LOST_AMOUNTS = 4
"""Amounts that another search may require; a translation that lost more is wrong in more than its numbers."""
_LANGUAGES = {"en", "zh"}


def may_lose_amounts(sentence: str, codec: TextCodec) -> bool:
    """Return whether translations of a sentence are to be looked at."""
    return {codec.source_language, codec.target_language} == _LANGUAGES and may_have_amounts(sentence)


def phrases_for_lost(source: str, target: str, codec: TextCodec, *, max_tokens: int) -> RequiredPhrases | None:
    """Return phrases, of fewer tokens than a maximum, that give back what a translation has lost; None for none."""
    lost = lost_amounts(source, target, writes_chinese=codec.target_language == "zh")
    if not 0 < len(lost) <= MAX_LOST_AMOUNTS:
        return None
    required = Counter(
        tuple(variant for text in writings for variant in codec.target_phrases.variants(text)) for writings in lost
    )
    phrases = RequiredPhrases(
        phrases=tuple(RequiredPhrase(variants=variants, count=count) for variants, count in required.items()),
        classes=codec.target_phrases.classes,
    )
    is_writable = all(required)
    return phrases if is_writable and phrases.tokens < min(max_tokens, MAX_PHRASE_TOKENS) else None


def is_better(source: str, first: str, second: str, codec: TextCodec) -> bool:
    """Return whether a second translation holds all amounts, and no new numbers or fewer than the first."""
    if lost_amounts(source, second, writes_chinese=codec.target_language == "zh"):
        return False
    added = new_numbers(source, second)
    return not added or added < new_numbers(source, first)
