"""Translations that repeat themselves because the search has not found their end, and the search made instead."""

from __future__ import annotations

import re
from dataclasses import replace

from xuanzang.server.engine.decoding.hypotheses import Sentence, TargetHypothesis
from xuanzang.server.engine.scheduling.requests.request import QueuedSentence
from xuanzang.server.engine.text.repetitions import has_repetition

# A search that does not find the end repeats tokens, too. Tokens are compared, as characters, before any text is made.
_REPEATED_TOKENS = re.compile(r"(.{1,60}?)\1", re.DOTALL)


def retry_of(queued: QueuedSentence, best: TargetHypothesis) -> Sentence | None:
    """Return the search to make instead of one whose translation is a repetition.

    Args:
        queued: Sentence that was searched.
        best: Its best hypothesis.

    Returns:
        The sentence under the n-gram limit of its model for this case; None if the translation can stand: it has no
        repetition, the source repeats itself as well, the caller has chosen a limit, or has seen the beginning already.
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
    if has_repetition(codec.decode_source(queued.sentence.source_ids)):
        return None
    limited = replace(options, decoding=replace(options.decoding, no_repeat_ngram_size=limit))
    return Sentence(source_ids=queued.sentence.source_ids, options=limited)
