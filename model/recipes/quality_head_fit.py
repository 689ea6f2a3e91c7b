"""A quality head made of measured pairs, and how well it does on others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics import CHRF
from scipy.optimize import minimize
from scipy.special import expit, log_expit
from scipy.stats import mannwhitneyu

from xuanzang.server.bundles.quality_head import Feature, FlagLimits, QualityHead
from xuanzang.server.engine.quality import (
    FEATURES,
    MAX_DEVIATIONS,
    MIN_RATED_TOKENS,
    QualityEstimator,
    SearchedSentence,
    low_attention_share,
)

Vector = npt.NDArray[np.float64]
Labels = npt.NDArray[np.bool_]

BINS = 10
"""Bins of equal width of reliability curves."""
# Shares of ordinary sentences outside of the limits of flags.
_UNUSUAL_RATIO = 0.005
_UNUSUAL_ATTENTION = 0.02
_MIN_DEVIATION = 1e-6
_DIGITS = 6


class MeasuredPair(NamedTuple):
    """A pair whose source was translated."""

    searched: SearchedSentence
    """Features that the search has left behind."""
    reference: str
    reference_tokens: int
    """End token counted."""


class LabelledPair(NamedTuple):
    """A measured pair, and whether its translation is acceptable."""

    searched: SearchedSentence
    reference_tokens: int
    is_acceptable: bool


class ReliabilityBin(NamedTuple):
    """Translations whose probabilities lie in one bin."""

    pairs: int
    mean_probability: float
    acceptable_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Agreement of the probabilities of one set of pairs with their labels."""

    pairs: int
    acceptable_share: float
    mean_probability: float
    calibration_error: float
    """Expected calibration error over the bins (Guo et al. 2017, arXiv:1706.04599, equation 3)."""
    auroc: float
    """Probability that an acceptable translation has a greater probability than another one."""
    auroc_of_score: float
    """The same of the mean log-probability of the tokens alone."""
    curve: tuple[ReliabilityBin, ...]
    """Bins that are not empty, from the least probable."""


def labelled(pairs: Sequence[MeasuredPair], min_chrf: float) -> list[LabelledPair]:
    """Call translations acceptable that are like the reference.

    Args:
        min_chrf: Minimum chrF2 of an acceptable sentence, 0 to 100.

    Source: Popović 2015, chrF, as sacreBLEU computes it for single sentences.
    """
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
    weights, intercept = fit_logistic(np.column_stack([standard, standard**2]), labels)
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


def fit_logistic(inputs: Vector, labels: Labels, *, penalty: float = 1.0) -> tuple[Vector, float]:
    """Find the weights of a logistic regression that make labels likeliest, less a penalty on large weights.

    Args:
        inputs: Standardised features, [pair, feature].
        labels: Whether each pair is positive, [pair].
        penalty: Weight of half the squared norm of the weights, above 0; the intercept is free.

    Returns:
        Weights, [feature], and intercept.

    Raises:
        ValueError: All labels are equal, so that nothing can be told apart.
    """
    if labels.all() or not labels.any():
        raise ValueError("all pairs have the same label")
    columns = np.column_stack([inputs, np.ones(len(inputs))])
    penalties = np.full(columns.shape[1], penalty)
    penalties[-1] = 0.0

    def loss(weights: Vector) -> float:
        logits = columns @ weights
        return float(penalties @ weights**2 / 2 - log_expit(np.where(labels, logits, -logits)).sum())

    def gradient(weights: Vector) -> Vector:
        slope: Vector = columns.T @ (expit(columns @ weights) - labels) + penalties * weights
        return slope

    def curvature(weights: Vector) -> Vector:
        likely = expit(columns @ weights)
        matrix: Vector = (columns.T * (likely * (1 - likely))) @ columns + np.diag(penalties)
        return matrix

    begin = np.zeros(columns.shape[1])
    weights = minimize(loss, begin, method="trust-exact", jac=gradient, hess=curvature, options={"gtol": 1e-8}).x
    return weights[:-1], float(weights[-1])


def _limits(pairs: Sequence[LabelledPair]) -> FlagLimits:
    rated = [pair for pair in pairs if pair.searched.source_tokens >= MIN_RATED_TOKENS]
    if not rated:
        raise ValueError(f"no sentence has {MIN_RATED_TOKENS} source tokens or more")
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
        pairs: Pairs that were not used to fit it, with both labels.
    """
    estimator = QualityEstimator(head)
    return agreement(
        [estimator.probability(pair.searched) for pair in pairs],
        [math.fsum(pair.searched.token_scores) / len(pair.searched.token_scores) for pair in pairs],
        [pair.is_acceptable for pair in pairs],
    )


def agreement(probabilities: Sequence[float], scores: Sequence[float], labels: Sequence[bool]) -> Agreement:
    """Compare probabilities with labels.

    Args:
        probabilities: Estimates, 0 to 1, at least one.
        scores: Mean log-probabilities of the tokens.
        labels: Whether each translation is acceptable.
    """
    likely, true = np.asarray(probabilities, dtype=np.float64), np.asarray(labels, dtype=np.bool_)
    curve = tuple(_curve(likely, true))
    gaps = [each.pairs * abs(each.mean_probability - each.acceptable_share) for each in curve]
    return Agreement(
        pairs=len(true),
        acceptable_share=float(true.mean()),
        mean_probability=float(likely.mean()),
        calibration_error=sum(gaps) / len(true),
        auroc=auroc(likely, true),
        auroc_of_score=auroc(np.asarray(scores, dtype=np.float64), true),
        curve=curve,
    )


def _curve(likely: Vector, true: Labels) -> list[ReliabilityBin]:
    bins = np.minimum((likely * BINS).astype(int), BINS - 1)
    inside = [bins == number for number in range(BINS)]
    return [
        ReliabilityBin(int(each.sum()), float(likely[each].mean()), float(true[each].mean()))
        for each in inside
        if each.any()
    ]


def auroc(values: Vector, true: Labels) -> float:
    """Return the probability that a true element has a greater value than a false one; ties count half.

    Args:
        values: Values, [element].
        true: Labels, [element].

    Raises:
        ValueError: All elements have the same label.
    """
    if true.all() or not true.any():
        raise ValueError("all elements have the same label")
    found = mannwhitneyu(values[true], values[~true], method="asymptotic").statistic
    return float(found / (true.sum() * (~true).sum()))
