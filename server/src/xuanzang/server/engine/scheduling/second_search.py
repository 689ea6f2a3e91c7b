"""Sentences that are searched again: because their translation repeats itself, or because it lacks a term."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from xuanzang.server.engine.decoding.hypotheses import SearchOptions, Sentence, TargetHypothesis
from xuanzang.server.engine.scheduling.request import QueuedSentence
from xuanzang.server.engine.text.words import has_repetition

# A search that does not find the end repeats tokens, too. Tokens are compared, as characters, before any text is made.
_REPEATED_TOKENS = re.compile(r"(.{1,60}?)\1", re.DOTALL)


def without_repetition(queued: QueuedSentence, best: TargetHypothesis) -> Sentence | None:
    """Return the search to make instead of one whose translation is a repetition: under the model's n-gram limit.

    None if it can stand: there is no repetition, the source repeats itself as well, or the caller has chosen a limit or
    seen the beginning already.
    """
    request, options = queued.request, queued.sentence.options
    limit = request.model.repetition_retry_ngram_size
    if not limit or options.decoding.no_repeat_ngram_size or request.has_listener:
        return None
    if not _REPEATED_TOKENS.search("".join(map(chr, best.target_ids))):
        return None
    codec = request.context.codec
    if not has_repetition(codec.decode(best.target_ids)):
        return None
    if has_repetition(codec.source.decode(queued.sentence.source_ids)):
        return None
    limited = replace(options, decoding=replace(options.decoding, no_repeat_ngram_size=limit))
    return _again(queued, limited)


def with_required_terms(queued: QueuedSentence, found: Sequence[TargetHypothesis]) -> Sentence | None:
    """Return the search to make besides one that left it to the model to write the terms of its source."""
    options = queued.sentence.options
    if options.expected_phrases is None or not any(queued.renderer.missed_terms(each.target_ids) for each in found):
        return None
    return _again(queued, replace(options, phrases=options.expected_phrases.compiled(), expected_phrases=None))


def best_of(
    queued: QueuedSentence, free: Sequence[TargetHypothesis], bound: Sequence[TargetHypothesis]
) -> list[TargetHypothesis]:
    """Return as many different hypotheses of two searches as requested: those with most terms, then highest scores."""
    different = {tuple(each.target_ids): each for each in (*bound, *free)}
    missed = {ids: queued.renderer.missed_terms(ids) for ids in different}
    best = sorted(different, key=lambda ids: (missed[ids], -different[ids].score))
    return [different[ids] for ids in best[: max(len(free), len(bound))]]


def _again(queued: QueuedSentence, options: SearchOptions) -> Sentence:
    return Sentence(source_ids=queued.sentence.source_ids, options=options)
