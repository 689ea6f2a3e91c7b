"""The forecast: when work would be done, from the tokens that come first and the rate that was measured.

Only what the server itself did counts, in tokens that went through the network. What callers can move by their texts
and deadlines is clamped, and forgotten within seconds.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from typing import NamedTuple

from xuanzang.server.engine.decoding.hypotheses import Sentence

# A measurement counts half after this many seconds of work.
_HALF_LIFE_SECONDS = 5.0
# Weight of the last sentence in the mean time of a token.
_SENTENCE_WEIGHT = 0.05
# Of how much longer or shorter than predicted a sentence counts at most.
_MAX_LENGTH_RATIO = 2.0
# Smallest share of the mean time of a token, in a batch of one sentence.
_MIN_ROW_SHARE = 0.1
# Fixed time of a step, in sentences.
_STEP_ROWS = 4.0
# Spread of the rows, as a share of their mean, above which observations outweigh assumptions.
_ASSUMED_SPREAD = 0.1
# Weight of the last encoder run in the cost of joining; maximum and minimum variation of runs for an estimate.
_RUN_WEIGHT = 0.02
_MAX_RUN_FACTOR = 3.0
_TELLING_SPREAD = 0.1
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
# Requests that tell how small the next one may be.
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


class _Line:
    """Regression of seconds on a size, recent measurements counting more: sums of a window that fades (West 1979)."""

    def __init__(self) -> None:
        self.seconds = self.size = 0.0
        """Means; 0 before the first measurement."""
        self.covariance = self.variance = 0.0

    def record(self, size: float, seconds: float, *, weight: float) -> None:
        """Add a measurement; the first one counts in full, whatever its weight."""
        if not self.seconds:
            self.size, self.seconds = size, seconds
            return
        more, longer = size - self.size, seconds - self.seconds
        self.size += weight * more
        self.seconds += weight * longer
        self.covariance = (1 - weight) * (self.covariance + weight * more * longer)
        self.variance = (1 - weight) * (self.variance + weight * more * more)


class DecodingTime:
    """Mean time that a sentence stays in a batch for each predicted target token, recent sentences counting more.

    It grows with the sentences of the batch, about linearly: a regression on observations says how much, or the usual
    value as long as batches were all alike.
    """

    def __init__(self) -> None:
        self._by_rows = _Line()

    def record(self, target_tokens: int, seconds: float, *, rows: float = 1.0, share: float = 1.0) -> None:
        """Add a measurement.

        Args:
            target_tokens: Predicted target tokens of a sentence, or those of its part that was decoded.
            seconds: Time from its joining a batch to its last step.
            rows: Sentences of its batch, at least 1.
            share: Share of the sentence that was decoded: without abandoned ones, slow ones would not count.
        """
        self._by_rows.record(rows, seconds / target_tokens, weight=_SENTENCE_WEIGHT * share)

    def seconds_for(self, target_tokens: float, rows: float | None = None) -> float:
        """Estimate the seconds that a sentence stays in a batch of the given size; None: of the recent size.

        It is 0 before the first measurement.
        """
        line = self._by_rows
        seconds = line.seconds
        if rows is not None and seconds:
            # Prior knowledge weighs as a spread of some rows.
            usual, spread = seconds / (line.size + _STEP_ROWS), (_ASSUMED_SPREAD * line.size) ** 2
            slope = (line.covariance + spread * usual) / (line.variance + spread)
            slope = min(max(slope, 0.0), seconds / line.size)
            seconds = max(seconds + slope * (rows - line.size), _MIN_ROW_SHARE * seconds)
        return target_tokens * seconds


class JoiningCost:
    """Time that an encoder run takes whatever it encodes: what running sentences lose each time that others join."""

    def __init__(self) -> None:
        self._by_tokens = _Line()

    def record(self, source_tokens: int, seconds: float) -> None:
        """Add a run of the encoder: source tokens of all sentences that joined, and the time until they had."""
        line = self._by_tokens
        if line.seconds:
            # A run interrupted by the system is no evidence.
            usual = line.seconds * max(1.0, source_tokens / line.size)
            seconds = min(seconds, _MAX_RUN_FACTOR * usual)
        line.record(source_tokens, seconds, weight=_RUN_WEIGHT)

    @property
    def seconds(self) -> float:
        """Estimate of the time; 0 before the first run, and while runs are too much alike to tell."""
        line = self._by_tokens
        if not line.seconds or line.variance < (_TELLING_SPREAD * line.size) ** 2:
            return 0.0
        return min(max(line.seconds - line.covariance / line.variance * line.size, 0.0), line.seconds)


class RequestSize(NamedTuple):
    """Predicted cost of a request."""

    cost: int
    longest: int
    """Target tokens of its longest sentence."""


class Calibration:
    """Factor that makes estimates safe: nearly all requests take at most the estimate times the factor.

    The factor follows a quantile of the observations, by stochastic approximation (Robbins and Monro 1951): it grows
    with each request that takes longer, and shrinks a little with each other. A request that ran out of time was
    admitted in vain, so the factor becomes at once what would have refused it.
    """

    def __init__(self) -> None:
        self._factor = 1.0
        self._typical = 1.0
        self._raised_at = -math.inf
        self._forgot_at = -math.inf

    def forget(self, now: float) -> None:
        """Let the factor sink towards 1 over time: a server that refuses everything would observe nothing."""
        if now > self._forgot_at:
            self._factor = 1 + (self._factor - 1) * 0.5 ** ((now - self._forgot_at) / _FACTOR_SECONDS)
            self._forgot_at = now

    def wait(self, estimate: float, safe_seconds: float) -> float:
        """Return the time after which an estimate will be safe within a time, without new work.

        Estimates shrink as fast as the work is done: by a second in as many seconds as half of the requests take for
        each that was estimated. Below 0 the estimate is safe.
        """
        return self._typical * (estimate - self.estimate(safe_seconds))

    def safe(self, seconds: float) -> float:
        """Return the time within which nearly all requests with an estimate are done, seconds."""
        return self._factor * seconds + _OVERHEAD_SECONDS

    def allows(self, estimate: float | None, seconds: float) -> bool:
        """Return whether a time is safe for an estimate, as far as known; None: nothing is estimated yet."""
        return estimate is None or self.safe(estimate) <= seconds

    def estimate(self, safe_seconds: float) -> float:
        """Return the greatest estimate that is safe within a time, seconds; less than 0 if there is none."""
        return (safe_seconds - _OVERHEAD_SECONDS) / self._factor

    def observe(self, estimate: float, seconds: float, *, submitted_at: float = math.inf) -> None:
        """Compare an estimate with the time that its request took.

        Requests submitted before the factor was last raised, because one ran out of time, do not show that it is too
        great.
        """
        side = math.copysign(0.5, seconds - self._typical * estimate)
        self._typical = min(max(self._typical * (1 + _FOLLOWING_RATE * side), 1 / _MAX_FACTOR), _MAX_FACTOR)
        is_late = seconds > self.safe(estimate)
        if not is_late and submitted_at < self._raised_at:
            return
        step = 1 - _LATE_SHARE if is_late else -_LATE_SHARE
        self._set(self._factor * (1 + _FOLLOWING_RATE * step))

    def observe_expiry(self, estimate: float, seconds: float, *, now: float) -> None:
        """Take note of a request that ran out of the time that it had."""
        enough = (seconds - _OVERHEAD_SECONDS) / max(estimate, _MIN_ESTIMATE)
        self._raised_at = now
        self._set(max(self._factor, _EXPIRED_MARGIN * enough))

    def _set(self, factor: float) -> None:
        self._factor = min(max(factor, _MIN_FACTOR), _MAX_FACTOR)


class Forecast:
    """When work would be done, as far as anything has been measured. Not thread-safe: the scheduler holds its lock."""

    def __init__(self, *, workers: int) -> None:
        self._workers = workers
        # Tokens and seconds of workers that were busy, old ones fading.
        self._tokens = self._seconds = 0.0
        self._length_ratio = 1.0
        self._decoding_time = DecodingTime()
        self._sizes: deque[RequestSize] = deque(maxlen=_RECENT_REQUESTS)
        self.calibration = Calibration()

    def record(self, predicted: int, taken: int, seconds: float, *, rows: int, is_whole: bool) -> None:
        """Add a sentence that has left its batch.

        One counts for at most twice or half of its prediction, so no caller moves the ratio of lengths by much with
        searches that do not find their ends.

        Args:
            predicted: Predicted target tokens.
            taken: Steps that were taken.
            seconds: Time from its joining a batch to its last step.
            rows: Places of the batches that it had its steps with.
            is_whole: False if it was given up.
        """
        if not taken:
            return
        if is_whole:
            ratio = min(max(taken / predicted, 1 / _MAX_LENGTH_RATIO), _MAX_LENGTH_RATIO)
            self._length_ratio += _SENTENCE_WEIGHT * (ratio - self._length_ratio)
        self._decoding_time.record(taken, seconds, rows=rows, share=min(1.0, taken / predicted))

    def record_work(self, tokens: int, seconds: float) -> None:
        """Add the tokens that went through the network in the busy time of a worker."""
        fading = 0.5 ** (seconds / _HALF_LIFE_SECONDS)
        self._tokens = self._tokens * fading + tokens
        self._seconds = self._seconds * fading + seconds

    def record_request(self, size: RequestSize) -> None:
        """Add a request, even a refused one."""
        self._sizes.append(size)

    @property
    def smallest_cost(self) -> int:
        """The fewest tokens of one of the last requests; 0 before the first one."""
        return min([size.cost for size in self._sizes], default=0)

    @property
    def typical_size(self) -> RequestSize:
        """The medians of the last requests; zeros before the first one."""
        costs, longest = zip(*self._sizes or [RequestSize(0, 0)], strict=True)
        return RequestSize(statistics.median_low(costs), statistics.median_low(longest))

    def seconds_for(self, tokens: float, *, workers: int | None = None) -> float | None:
        """Estimate the seconds that workers need for predicted tokens; None: nothing is measured."""
        if not self._tokens:
            return None
        return tokens * self._length_ratio * self._seconds / self._tokens / min(workers or math.inf, self._workers)

    def seconds_in_batch(self, target_tokens: int, rows: float | None = None) -> float:
        """Estimate the seconds that a sentence stays in a batch of the given places; 0 if nothing is measured.

        Without a number of places, they are as many as there were of late.
        """
        return self._decoding_time.seconds_for(target_tokens * self._length_ratio, rows)
