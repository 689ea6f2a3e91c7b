"""The paired bootstrap: how sure a sample of sentences makes a change of quality."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.base import Metric

RESAMPLES = 1000
_SEED = 20041
_BATCH = 100
"""Resamples counted at a time, so that many pairs take little memory."""


class Change(NamedTuple):
    """Difference of a corpus score between two systems on the same sentences."""

    change: float
    """Score of the second system minus that of the first, on all sentences."""
    low: float
    """5th percentile of the change over the resamples: 95% of them change by more."""
    high: float
    """95th percentile: 95% of them change by less."""


def paired_change(metric: Metric, before: Sequence[str], after: Sequence[str], references: Sequence[str]) -> Change:
    """Measure how a corpus score changes from one system to another, with a 90% interval.

    Sentences are drawn with replacement, the same ones for both systems, and the score of each draw is computed from
    the sums of the sentences' statistics. The draws are the same every time.

    Args:
        metric: Metric of the score.
        before: Translations of the first system, one per sentence.
        after: Translations of the second system, one per sentence.
        references: References, one per sentence.

    Source: Koehn, "Statistical Significance Tests for Machine Translation Evaluation", EMNLP 2004, section 3.
    """
    systems = [_statistics(metric, texts, references) for texts in (before, after)]
    whole = [_score(metric, statistics.sum(axis=0)) for statistics in systems]
    generator = np.random.default_rng(_SEED)
    sentences = len(references)
    changes = []
    for _ in range(RESAMPLES // _BATCH):
        # How often each sentence is drawn, so that a product sums the statistics.
        draws = generator.multinomial(sentences, np.full(sentences, 1 / sentences), size=_BATCH)  # [draw, sentence]
        sums = [draws @ statistics for statistics in systems]  # [draw, statistic]
        changes += [_score(metric, second) - _score(metric, first) for first, second in zip(*sums, strict=True)]
    low, high = np.percentile(changes, (5, 95))
    return Change(whole[1] - whole[0], float(low), float(high))


# sacreBLEU's own significance test uses these two as well, but reports the interval of each system, not of the change.
def _statistics(metric: Metric, texts: Sequence[str], references: Sequence[str]) -> npt.NDArray[np.float64]:
    """Return the statistics of each sentence, [sentence, statistic]."""
    return np.array(metric._extract_corpus_statistics(texts, [references]), dtype=np.float64)  # noqa: SLF001


def _score(metric: Metric, statistics: npt.NDArray[np.float64]) -> float:
    return float(metric._compute_score_from_stats(statistics.tolist()).score)  # noqa: SLF001
