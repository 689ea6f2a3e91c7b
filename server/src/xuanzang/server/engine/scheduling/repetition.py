"""Translations that repeat themselves because the search has not found their end, and what is searched instead."""

from __future__ import annotations

import re
from dataclasses import replace

from xuanzang.server.engine.decoding.hypotheses import Sentence, TargetHypothesis
from xuanzang.server.engine.scheduling.request import QueuedSentence

# Words or a piece of one four times in a row, or one character ten times. The space lets the last word be without one.
_LOOP = re.compile(r"(\S.{1,60}?)\1{3}|(\S)\2{9}", re.DOTALL)
# A loop has so many tokens that occur again.
_LEAST_REPEATED = 3


def retry_of(queued: QueuedSentence, best: TargetHypothesis) -> Sentence | None:
    """Return what to search instead of a sentence whose translation runs in circles.

    Args:
        queued: The sentence.
        best: Its best hypothesis.

    Returns:
        The sentence under the n-gram limit that its model has for this case; None if the translation can stand: it has
        no loop, the source repeats itself as well, the caller has chosen a limit, or has seen the beginning already.
    """
    request, options = queued.request, queued.sentence.options
    limit = request.model.loop_retry_ngram_size
    if not limit or options.no_repeat_ngram_size or request.followed:
        return None
    if len(best.target_ids) - len(set(best.target_ids)) < _LEAST_REPEATED:
        return None
    text = request.terms.text
    if not has_loop(text.decode(best.target_ids)) or has_loop(text.decode_source(queued.sentence.source_ids)):
        return None
    return Sentence(source_ids=queued.sentence.source_ids, options=replace(options, no_repeat_ngram_size=limit))


def has_loop(text: str) -> bool:
    """Return whether a piece of a text follows itself three times over."""
    return _LOOP.search(f"{text} ") is not None
