"""Predicted cost of sentences, and the time that workers take for it, as measured."""

from __future__ import annotations

from collections import deque

from xuanzang.server.engine.decoding.hypotheses import Sentence

# A measurement counts half after this many seconds of work.
_HALF_LIFE_SECONDS = 5.0
# Weight of the last sentence in the mean time of a token.
_SENTENCE_WEIGHT = 0.05
# Share of the requests that may take longer than their safe estimate, and how fast the estimate follows.
_LATE_SHARE = 0.02
_FOLLOWING_RATE = 0.05
_MIN_FACTOR, _MAX_FACTOR = 0.7, 4.0
# Requests that tell how small the next one may be.
_RECENT_REQUESTS = 64
# Event loop, network and the wait for a worker's next step, which no prediction holds.
_OVERHEAD_SECONDS = 0.05


def predicted_target_tokens(sentence: Sentence) -> int:
    """Predict the target tokens of a sentence: as many as source tokens, within the limits of the sentence."""
    options = sentence.options
    minimum = max(options.decoding.min_target_length + 1, len(options.prefix_ids) + 1)
    return min(max(len(sentence.source_ids), minimum), options.max_target_length)


def predicted_cost(sentence: Sentence) -> int:
    """Predict the tokens that must go through the network for a sentence.

    Each source token passes the encoder once, and each token of each hypothesis the decoder once. The error of the
    predicted length is part of the measured rate.

    Args:
        sentence: Sentence with its options.

    Returns:
        Tokens, at least 2.
    """
    return len(sentence.source_ids) + sentence.options.decoding.beam_size * predicted_target_tokens(sentence)


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

    def seconds_for(self, tokens: float) -> float | None:
        """Estimate the time that all workers take for a number of tokens.

        Args:
            tokens: Predicted tokens.

        Returns:
            Seconds; None before the first measurement.
        """
        if not self._tokens:
            return None
        return tokens * self._seconds / self._tokens / self._workers


class DecodingTime:
    """Mean time that a sentence stays in a batch for each predicted target token, recent sentences counting more."""

    def __init__(self) -> None:
        self._seconds_per_token = 0.0

    def record(self, target_tokens: int, seconds: float) -> None:
        """Add a measurement.

        Args:
            target_tokens: Predicted target tokens of a sentence.
            seconds: Time from its joining a batch to its last step.
        """
        measured = seconds / target_tokens
        weight = _SENTENCE_WEIGHT if self._seconds_per_token else 1.0
        self._seconds_per_token += weight * (measured - self._seconds_per_token)

    def seconds_for(self, target_tokens: int) -> float:
        """Estimate the time that a sentence stays in a batch.

        Args:
            target_tokens: Predicted target tokens.

        Returns:
            Seconds; 0 before the first measurement.
        """
        return target_tokens * self._seconds_per_token


class RequestSizes:
    """Predicted tokens of the last requests, refused ones included."""

    def __init__(self) -> None:
        self._costs: deque[int] = deque(maxlen=_RECENT_REQUESTS)

    def record(self, cost: int) -> None:
        """Add a request.

        Args:
            cost: Its predicted tokens.
        """
        self._costs.append(cost)

    @property
    def smallest(self) -> int:
        """The fewest of them; 0 before the first request."""
        return min(self._costs, default=0)


class Calibration:
    """Factor that makes estimates safe: nearly all requests take at most the estimate times the factor.

    The factor follows a quantile of what is observed, by stochastic approximation (Robbins and Monro 1951): it grows
    much with each request that takes longer, and shrinks a little with each other.
    """

    def __init__(self) -> None:
        self._factor = 1.0

    def safe(self, seconds: float) -> float:
        """Return the time within which nearly all requests with an estimate are done, seconds."""
        return self._factor * seconds + _OVERHEAD_SECONDS

    def estimate(self, safe_seconds: float) -> float:
        """Return the greatest estimate that is safe within a time, seconds; less than 0 if there is none."""
        return (safe_seconds - _OVERHEAD_SECONDS) / self._factor

    def observe(self, estimate: float, seconds: float) -> None:
        """Compare an estimate with the time that its request took.

        Args:
            estimate: Estimated seconds.
            seconds: Time from submission to the result; infinite for a request that ran out of time.
        """
        is_late = seconds > self.safe(estimate)
        step = 1 - _LATE_SHARE if is_late else -_LATE_SHARE
        self._factor = min(max(self._factor * (1 + _FOLLOWING_RATE * step), _MIN_FACTOR), _MAX_FACTOR)
