"""How well probabilities agree with what comes true."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

BINS = 10
"""Bins of equal width."""


class ReliabilityBin(NamedTuple):
    """Translations whose probabilities lie in one bin."""

    pairs: int
    mean_probability: float
    acceptable_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How well the probabilities of one set of pairs agree with their labels."""

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


def _curve(likely: npt.NDArray[np.float64], true: npt.NDArray[np.bool_]) -> list[ReliabilityBin]:
    bins = np.minimum((likely * BINS).astype(int), BINS - 1)
    inside = [bins == number for number in range(BINS)]
    return [
        ReliabilityBin(int(each.sum()), float(likely[each].mean()), float(true[each].mean()))
        for each in inside
        if each.any()
    ]


def auroc(values: npt.NDArray[np.float64], true: npt.NDArray[np.bool_]) -> float:
    """Return the probability that a true element has a greater value than one that is not; ties count half.

    Args:
        values: Values, [element].
        true: Labels, [element], both kinds.

    Source: the statistic of Mann and Whitney, by mean ranks.
    """
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
    positives = int(true.sum())
    negatives = len(true) - positives
    if not positives or not negatives:
        raise ValueError("all elements have the same label")
    return float((ranks[true].sum() - positives * (positives + 1) / 2) / (positives * negatives))
