"""A quality head made of measured pairs, and how well it does on others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from xuanzang.server.bundles.quality_head import Feature, FlagLimits, QualityHead
from xuanzang.server.engine.quality.features import FEATURES, SearchedSentence, low_attention_share
from xuanzang.server.engine.quality.head import MAX_DEVIATIONS, QualityEstimator
from xuanzang.server.quality_fitting import logistic
from xuanzang.server.quality_fitting.calibration import Agreement, agreement
from xuanzang.server.quality_fitting.measurement import MeasuredPair

# Of sentences with fewer source tokens ratios say nothing.
_MIN_RATED_TOKENS = 6
# Shares of ordinary sentences outside of the limits of flags.
_UNUSUAL_RATIO = 0.005
_UNUSUAL_ATTENTION = 0.02
_MIN_DEVIATION = 1e-6
_DIGITS = 6


class LabelledPair(NamedTuple):
    """A measured pair, and whether its translation is acceptable."""

    searched: SearchedSentence
    reference_tokens: int
    is_acceptable: bool


def labelled(pairs: Sequence[MeasuredPair], min_chrf: float) -> list[LabelledPair]:
    """Call translations acceptable that are like the reference.

    Args:
        pairs: Translated pairs.
        min_chrf: Minimum chrF2 of an acceptable sentence, 0 to 100.

    Raises:
        ImportError: The extra `quality` is not installed.

    Source: Popović 2015, chrF, as sacreBLEU computes it for single sentences.
    """
    from sacrebleu.metrics import CHRF  # noqa: PLC0415 - an extra

    metric = CHRF()
    return [
        LabelledPair(
            pair.searched,
            pair.reference_tokens,
            metric.sentence_score(pair.searched.target, [pair.reference]).score >= min_chrf,
        )
        for pair in pairs
    ]


def fit_head(pairs: Sequence[LabelledPair]) -> QualityHead:
    """Fit a head.

    Args:
        pairs: Pairs that the model was not trained on.

    Raises:
        ValueError: All translations have the same label, or there are no sentences of ordinary length.
    """
    measured = np.array([[feature(pair.searched) for feature in FEATURES.values()] for pair in pairs])
    means, deviations = measured.mean(axis=0), np.maximum(measured.std(axis=0), _MIN_DEVIATION)
    standard = np.clip((measured - means) / deviations, -MAX_DEVIATIONS, MAX_DEVIATIONS)
    labels = np.array([pair.is_acceptable for pair in pairs])
    weights, intercept = logistic.fit(np.column_stack([standard, standard**2]), labels)
    columns = zip(FEATURES, means, deviations, weights[: len(FEATURES)], weights[len(FEATURES) :], strict=True)
    return QualityHead(
        features=tuple(
            Feature(
                name=name,
                mean=_rounded(mean),
                deviation=_rounded(deviation),
                weight=_rounded(weight),
                square_weight=_rounded(square),
            )
            for name, mean, deviation, weight, square in columns
        ),
        intercept=_rounded(intercept),
        limits=_limits(pairs),
    )


def _limits(pairs: Sequence[LabelledPair]) -> FlagLimits:
    rated = [pair for pair in pairs if pair.searched.source_tokens >= _MIN_RATED_TOKENS]
    if not rated:
        raise ValueError(f"no sentence has {_MIN_RATED_TOKENS} source tokens or more")
    # Of people's translations, because those of the model may all be too short.
    ratios = [pair.reference_tokens / pair.searched.source_tokens for pair in rated]
    low, high = np.quantile(ratios, [_UNUSUAL_RATIO, 1 - _UNUSUAL_RATIO])
    share = np.quantile([low_attention_share(pair.searched) for pair in rated], 1 - _UNUSUAL_ATTENTION)
    return FlagLimits(
        min_token_ratio=_rounded(low), max_token_ratio=_rounded(high), max_low_attention_share=_rounded(share)
    )


def _rounded(value: float) -> float:
    # The digits beyond differ between machines.
    return round(float(value), _DIGITS)


def evaluate(head: QualityHead, pairs: Sequence[LabelledPair]) -> Agreement:
    """Compare the probabilities of a head with the labels of pairs.

    Args:
        head: Head.
        pairs: Pairs that were not used to fit it, with both labels.
    """
    estimator = QualityEstimator(head)
    return agreement(
        [estimator.probability(pair.searched) for pair in pairs],
        [math.fsum(pair.searched.token_scores) / len(pair.searched.token_scores) for pair in pairs],
        [pair.is_acceptable for pair in pairs],
    )
