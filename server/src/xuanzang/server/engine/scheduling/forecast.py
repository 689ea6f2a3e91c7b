"""The forecast: when work would be done, from the tokens that come first and the rate that was measured.

Only the server's own work counts, in tokens that went through the network. The influence of callers, by their texts and
deadlines, is clamped, and forgotten within seconds.
"""

from __future__ import annotations

import math
import statistics
from collections import deque

from xuanzang.server.engine.decoding.hypotheses import Sentence

# A measurement counts half after this many seconds of work.
_HALF_LIFE_SECONDS = 5.0
# Weight of the last sentence in the mean time of a token.
_SENTENCE_WEIGHT = 0.05
# Maximum ratio of a sentence's length to its prediction that counts.
_MAX_LENGTH_RATIO = 2.0
# Fixed time of a step, in sentences.
_STEP_ROWS = 4.0
# Share of the requests that may take longer than their safe estimate, and how fast the estimate follows.
_LATE_SHARE = 0.02
_FOLLOWING_RATE = 0.05
# Below 1 more would be admitted than can be done: requests are often done before their turn, but never all of them.
_MIN_FACTOR, _MAX_FACTOR = 1.0, 4.0
# Half-life of the excess above 1.
_FACTOR_SECONDS = 5.0
# Shorter estimates than a step takes, seconds.
_MIN_ESTIMATE = 1e-3
# After a request ran out of time the factor exceeds the one that would just have refused it by this ratio.
_EXPIRED_MARGIN = 1.1
# Number of requests that predict the size of the next one.
_RECENT_REQUESTS = 64
# Event loop, network and the wait for a worker's next step, which no prediction holds.
_OVERHEAD_SECONDS = 0.05


def predicted_target_tokens(sentence: Sentence) -> int:
    """Predict the target tokens of a sentence: as many as source tokens, or the forced ones."""
    options = sentence.options
    phrase_tokens = options.phrases.tokens if options.phrases else 0
    forced = max(options.decoding.min_target_length, len(options.prefix_ids), phrase_tokens)
    return min(max(len(sentence.source_ids), forced + 1), options.max_target_length)


def predicted_cost(sentence: Sentence, target_tokens: int | None = None) -> int:
    """Predict the tokens that must go through the network for a sentence.

    Each source token passes the encoder once, and each token of each hypothesis the decoder once. The error of the
    predicted length is part of the measured rate.
    """
    if target_tokens is None:
        target_tokens = predicted_target_tokens(sentence)
    return len(sentence.source_ids) + sentence.options.decoding.beam_size * target_tokens


class Calibration:
    """Factor that makes estimates safe: nearly all requests take at most the estimate times the factor.

    The factor follows a quantile of the observations, by stochastic approximation (Robbins and Monro 1951): it grows
    with each request that takes longer, and shrinks a little with each other. A request that ran out of time was
    admitted in vain, so the factor becomes at once what would have refused it.
    """

    def __init__(self) -> None:
        self._factor = 1.0
        self._forgot_at = -math.inf

    def forget(self, now: float) -> None:
        """Let the factor sink towards 1 over time: a server that refuses everything would observe nothing."""
        if now > self._forgot_at:
            self._factor = 1 + (self._factor - 1) * 0.5 ** ((now - self._forgot_at) / _FACTOR_SECONDS)
            self._forgot_at = now

    def wait(self, estimate: float, safe_seconds: float) -> float:
        """Return the seconds after which an estimate will be safe within a time, without new work; below 0: it is."""
        return estimate - (safe_seconds - _OVERHEAD_SECONDS) / self._factor

    def safe(self, seconds: float) -> float:
        """Return the time within which nearly all requests with an estimate are done, seconds."""
        return self._factor * seconds + _OVERHEAD_SECONDS

    def observe(self, estimate: float, seconds: float) -> None:
        """Compare an estimate with the time that its request took."""
        step = 1 - _LATE_SHARE if seconds > self.safe(estimate) else -_LATE_SHARE
        self._factor = min(max(self._factor * (1 + _FOLLOWING_RATE * step), _MIN_FACTOR), _MAX_FACTOR)

    def observe_expiry(self, estimate: float, seconds: float) -> None:
        """Take note of a request that ran out of the time that it had."""
        enough = (seconds - _OVERHEAD_SECONDS) / max(estimate, _MIN_ESTIMATE)
        self._factor = min(max(self._factor, _EXPIRED_MARGIN * enough), _MAX_FACTOR)


class Forecast:
    """When work would be done, as far as anything has been measured. Not thread-safe: the scheduler holds its lock."""

    def __init__(self) -> None:
        # Tokens and seconds of workers that were busy, old ones fading.
        self._tokens = self._seconds = 0.0
        self._length_ratio = 1.0
        # Means of the last sentences: seconds in a batch for each token, and places of the batches.
        self._token_seconds = self._rows = 0.0
        self._sizes: deque[tuple[int, int]] = deque(maxlen=_RECENT_REQUESTS)
        """Cost, and predicted target tokens of the longest sentence, of the last requests."""
        self.calibration = Calibration()

    def record(self, predicted: int, taken: int, seconds: float, *, rows: int, is_whole: bool) -> None:
        """Add a sentence that has left its batch.

        One counts for at most twice or half of its prediction, so no caller moves the ratio of lengths by much with
        searches that do not find their ends.

        Args:
            predicted: Predicted target tokens.
            taken: Steps that were taken.
            seconds: Time from its joining a batch to its last step.
            rows: Places of its batch.
            is_whole: False if it was given up; slow sentences would not count without the part that was decoded.
        """
        if not taken:
            return
        if is_whole:
            ratio = min(max(taken / predicted, 1 / _MAX_LENGTH_RATIO), _MAX_LENGTH_RATIO)
            self._length_ratio += _SENTENCE_WEIGHT * (ratio - self._length_ratio)
        weight = _SENTENCE_WEIGHT * min(1.0, taken / predicted) if self._token_seconds else 1.0
        self._token_seconds += weight * (seconds / taken - self._token_seconds)
        self._rows += weight * (rows - self._rows)

    def record_work(self, tokens: int, seconds: float) -> None:
        """Add the tokens that went through the network in the busy time of a worker."""
        fading = 0.5 ** (seconds / _HALF_LIFE_SECONDS)
        self._tokens = self._tokens * fading + tokens
        self._seconds = self._seconds * fading + seconds

    def record_request(self, cost: int, longest: int) -> None:
        """Add a request, even a refused one, with the predicted target tokens of its longest sentence."""
        self._sizes.append((cost, longest))

    @property
    def smallest_cost(self) -> int:
        """The fewest tokens of one of the last requests; 0 before the first one."""
        return min(self._sizes, default=(0, 0))[0]

    @property
    def typical_size(self) -> tuple[int, int]:
        """The medians of the last requests, cost and longest sentence; zeros before the first one."""
        costs, longest = zip(*self._sizes or [(0, 0)], strict=True)
        return statistics.median_low(costs), statistics.median_low(longest)

    def seconds_for(self, tokens: float, *, workers: int) -> float:
        """Estimate the seconds that workers need for predicted tokens; 0 if nothing is measured."""
        return tokens * self._length_ratio * self._seconds / self._tokens / workers if self._tokens else 0.0

    def seconds_in_batch(self, target_tokens: int, rows: float) -> float:
        """Estimate the seconds that a sentence stays in a batch of the given places; 0 if nothing is measured.

        A step takes a fixed time, and the same for each sentence.
        """
        size = (_STEP_ROWS + rows) / (_STEP_ROWS + self._rows)
        return target_tokens * self._length_ratio * self._token_seconds * size
