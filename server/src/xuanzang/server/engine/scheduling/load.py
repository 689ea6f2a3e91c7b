"""Predicted cost of sentences, and the measured rate at which workers get through it."""

from __future__ import annotations

from xuanzang.server.engine.decoding.hypotheses import Sentence

# A measurement counts half after this many seconds of work.
_HALF_LIFE_SECONDS = 5.0


def predicted_cost(sentence: Sentence) -> int:
    """Predict the tokens that must go through the network for a sentence.

    Each source token passes the encoder once, and each token of each hypothesis the decoder once. A translation is
    taken to be as long as its source, within the limits of the sentence; the error of this is part of the measured
    rate.

    Args:
        sentence: Sentence with its options.

    Returns:
        Tokens, at least 2.
    """
    options, source_tokens = sentence.options, len(sentence.source_ids)
    minimum = max(options.decoding.min_target_length + 1, len(options.prefix_ids) + 1)
    target_tokens = min(max(source_tokens, minimum), options.max_target_length)
    return source_tokens + options.decoding.beam_size * target_tokens


class Throughput:
    """Predicted tokens per second of all workers while they are busy: past tokens and seconds, old ones fading."""

    def __init__(self, *, workers: int) -> None:
        """Start without measurements.

        Args:
            workers: Number of workers side by side.
        """
        self._workers = workers
        self._tokens = 0.0
        self._seconds = 0.0

    def record(self, tokens: int, seconds: float) -> None:
        """Add a measurement of one worker.

        Args:
            tokens: Predicted tokens of the sentences that are done.
            seconds: Busy time of the worker since its last measurement.
        """
        fading = 0.5 ** (seconds / _HALF_LIFE_SECONDS)
        self._tokens = self._tokens * fading + tokens
        self._seconds = self._seconds * fading + seconds

    def seconds_for(self, tokens: int) -> float | None:
        """Estimate the time that all workers take for a number of tokens.

        Args:
            tokens: Predicted tokens.

        Returns:
            Seconds; None before the first measurement.
        """
        if not self._tokens:
            return None
        return tokens * self._seconds / self._tokens / self._workers
