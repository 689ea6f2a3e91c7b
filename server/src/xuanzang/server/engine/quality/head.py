"""The probability that a translation is acceptable: a logistic regression over features and their squares."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Protocol

from xuanzang.server.bundles.quality_head import Feature, FlagLimits, QualityHead

# A source token that is translated gets about 1 in total; see docs/quality.md.
_LOW_ATTENTION = 0.4
_WORD = re.compile(r"[^\W\d_]+")
MAX_DEVIATIONS = 4.0
"""Standardised features are limited to this far from 0: of anything stranger the pairs of the fit say nothing."""
# Beyond it the probability is 0 or 1 in double precision.
_MAX_LOGIT = 35.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedSentence:
    """A sentence and one hypothesis of its search."""

    source: str
    """As the caller wrote it; not empty."""
    target: str
    source_tokens: int
    """End token counted, at least 1."""
    token_scores: Sequence[float]
    """Log-probability of each target token, end token included, nats; at least one."""
    alignment: Sequence[int]
    """Source position that each target token attends to most."""
    attention: Sequence[float]
    """Attention that each source position got from all target tokens, [source]."""
    finished: bool = True
    """Whether the model ended the hypothesis."""


def mean_probability(sentence: SearchedSentence) -> float:
    """Return the mean probability of the target tokens."""
    return sum(map(math.exp, sentence.token_scores)) / len(sentence.token_scores)


def score_deviation(sentence: SearchedSentence) -> float:
    """Return the standard deviation of the target tokens' log-probabilities."""
    scores = sentence.token_scores
    mean = sum(scores) / len(scores)
    return math.sqrt(sum((score - mean) ** 2 for score in scores) / len(scores))


def min_score(sentence: SearchedSentence) -> float:
    """Return the log-probability of the least likely target token."""
    return min(sentence.token_scores)


def source_tokens(sentence: SearchedSentence) -> float:
    """Return the logarithm of the number of source tokens."""
    return math.log(sentence.source_tokens)


def source_characters(sentence: SearchedSentence) -> float:
    """Return the logarithm of the source's length; with `source_tokens` it tells common words from rare ones."""
    return math.log(len(sentence.source))


def character_ratio(sentence: SearchedSentence) -> float:
    """Return the logarithm of target characters per source character."""
    return math.log((len(sentence.target) + 1) / (len(sentence.source) + 1))


def token_ratio(sentence: SearchedSentence) -> float:
    """Return the logarithm of target tokens per source token."""
    return math.log(len(sentence.token_scores) / sentence.source_tokens)


def low_attention_share(sentence: SearchedSentence) -> float:
    """Return the share of source tokens, end token left out, that got little attention."""
    attention = sentence.attention[: sentence.source_tokens - 1]
    return sum(1 for received in attention if received < _LOW_ATTENTION) / max(len(attention), 1)


def aligned_share(sentence: SearchedSentence) -> float:
    """Return the share of source tokens that a target token attends to most."""
    return len(set(sentence.alignment)) / sentence.source_tokens


def backward_share(sentence: SearchedSentence) -> float:
    """Return the share of target tokens that attend to a source token before that of their predecessor."""
    backward = sum(1 for before, after in pairwise(sentence.alignment) if after < before)
    return backward / len(sentence.alignment)


def copied_share(sentence: SearchedSentence) -> float:
    """Return the share of the target's letters in words that the source has, too; 0 without letters."""
    source = sentence.source.casefold()
    words: list[str] = _WORD.findall(sentence.target.casefold())
    return sum(len(word) for word in words if word in source) / max(sum(map(len, words)), 1)


FEATURES: Mapping[str, Callable[[SearchedSentence], float]] = MappingProxyType(
    {
        feature.__name__: feature
        for feature in (
            *(mean_probability, score_deviation, min_score, source_tokens, source_characters, character_ratio),
            *(token_ratio, low_attention_share, aligned_share, backward_share, copied_share),
        )
    }
)
"""All features by name."""


def unknown_features(head: QualityHead) -> list[str]:
    """Return the names of a head's features that this server cannot measure."""
    return [feature.name for feature in head.features if feature.name not in FEATURES]


def standardised(value: float, mean: float, deviation: float) -> float:
    """Return a feature in standard deviations from its mean, limited."""
    return min(max((value - mean) / deviation, -MAX_DEVIATIONS), MAX_DEVIATIONS)


class Estimator(Protocol):
    """What estimates how far to trust translations."""

    @property
    def limits(self) -> FlagLimits:
        """Bounds of what is usual."""

    def probability(self, sentence: SearchedSentence) -> float:
        """Return the probability that a translation is acceptable."""


class QualityEstimator:
    """Estimates with one head. Immutable, so threads may share it."""

    def __init__(self, head: QualityHead) -> None:
        self.limits = head.limits
        """Bounds of what is usual."""
        self._intercept = head.intercept
        self._terms: list[tuple[Feature, Callable[[SearchedSentence], float]]] = [
            (feature, FEATURES[feature.name]) for feature in head.features
        ]

    def probability(self, sentence: SearchedSentence) -> float:
        """Estimate the probability that a translation is acceptable."""
        logit = self._intercept + sum(self._contributions(sentence))
        return 1 / (1 + math.exp(-min(max(logit, -_MAX_LOGIT), _MAX_LOGIT)))

    def _contributions(self, sentence: SearchedSentence) -> Iterator[float]:
        for feature, measured in self._terms:
            value = standardised(measured(sentence), feature.mean, feature.deviation)
            yield value * (feature.weight + value * feature.square_weight)
