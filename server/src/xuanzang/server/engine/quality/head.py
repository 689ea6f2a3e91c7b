"""The probability that a translation is acceptable: a logistic regression over features and their squares."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Protocol

from xuanzang.server.bundles.quality_head import Feature, FlagLimits, QualityHead
from xuanzang.server.engine.quality.features import FEATURES, SearchedSentence

MAX_DEVIATIONS = 4.0
"""Standardised features are limited to this far from 0: of anything stranger the pairs of the fit say nothing."""
# Beyond it the probability is 0 or 1 in double precision.
_MAX_LOGIT = 35.0


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
        """Look the features up.

        Args:
            head: Head whose features are all known.
        """
        self.limits = head.limits
        """Bounds of what is usual."""
        self._intercept = head.intercept
        self._terms: list[tuple[Feature, Callable[[SearchedSentence], float]]] = [
            (feature, FEATURES[feature.name]) for feature in head.features
        ]

    def probability(self, sentence: SearchedSentence) -> float:
        """Estimate the probability that a translation is acceptable.

        Args:
            sentence: Sentence with the hypothesis.

        Returns:
            0 to 1.
        """
        logit = self._intercept + sum(self._contributions(sentence))
        return 1 / (1 + math.exp(-min(max(logit, -_MAX_LOGIT), _MAX_LOGIT)))

    def _contributions(self, sentence: SearchedSentence) -> Iterator[float]:
        for feature, measured in self._terms:
            value = standardised(measured(sentence), feature.mean, feature.deviation)
            yield value * (feature.weight + value * feature.square_weight)
