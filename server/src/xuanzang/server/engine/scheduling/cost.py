"""What a sentence will cost, before anything is known of its translation."""

from __future__ import annotations

from xuanzang.server.engine.decoding.hypotheses import Sentence


def predicted_cost(sentence: Sentence) -> int:
    """Predict the tokens that must go through the network for a sentence.

    Each source token passes the encoder once, and each token of each hypothesis the decoder once. A translation is
    taken to be as long as its source, within the limits of the sentence; by how much that errs is part of the measured
    rate.

    Args:
        sentence: With its options.

    Returns:
        Tokens, at least 2.
    """
    options, source_tokens = sentence.options, len(sentence.source_ids)
    least = max(options.min_target_length + 1, len(options.prefix_ids) + 1)
    target_tokens = min(max(source_tokens, least), options.max_target_length)
    return source_tokens + options.beam_size * target_tokens
