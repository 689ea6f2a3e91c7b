"""The paired bootstrap against what is known of it."""

from __future__ import annotations

import random

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF

from xuanzang.export.certification.quality import paired_change

WORDS = ["the", "a", "cat", "dog", "sees", "has", "small", "big", "house", "in", "tree", "on", "river", "and", "old"]


def references(count: int) -> list[str]:
    generator = random.Random(1)
    return [" ".join(generator.choices(WORDS, k=generator.randint(6, 14))) for _ in range(count)]


def damaged(texts: list[str], share: float, seed: int) -> list[str]:
    """Return texts of which a share of the words is another."""
    generator = random.Random(seed)
    return [
        " ".join(generator.choice(WORDS) if generator.random() < share else word for word in text.split())
        for text in texts
    ]


@pytest.mark.parametrize("metric", [BLEU(), CHRF()], ids=["bleu", "chrf"])
def test_the_change_is_that_of_the_corpus_scores(metric: BLEU | CHRF) -> None:
    wanted = references(80)
    one, two = damaged(wanted, 0.2, 2), damaged(wanted, 0.4, 3)
    found = paired_change(metric, one, two, wanted)
    scores = [metric.corpus_score(texts, [wanted]).score for texts in (one, two)]
    assert found.change == pytest.approx(scores[1] - scores[0])
    assert found.low < found.change < found.high < 0


@pytest.mark.slow
def test_the_interval_is_that_of_corpora_drawn_with_replacement() -> None:
    wanted, metric = references(40), CHRF()
    one, two = damaged(wanted, 0.2, 2), damaged(wanted, 0.3, 3)
    generator, changes = np.random.default_rng(7), []
    for _ in range(400):
        drawn = generator.integers(40, size=40)
        scores = [
            metric.corpus_score([texts[i] for i in drawn], [[wanted[i] for i in drawn]]).score for texts in (one, two)
        ]
        changes.append(scores[1] - scores[0])
    found = paired_change(metric, one, two, wanted)
    width = np.percentile(changes, 95) - np.percentile(changes, 5)
    np.testing.assert_allclose([found.low, found.high], np.percentile(changes, (5, 95)), atol=0.15 * width)


def test_equal_translations_change_nothing() -> None:
    wanted = references(20)
    texts = damaged(wanted, 0.3, 4)
    assert paired_change(BLEU(), texts, texts, wanted) == (0, 0, 0)


def test_more_pairs_leave_less_doubt_and_the_same_ones_leave_the_same() -> None:
    wanted = references(1600)
    one, two = damaged(wanted, 0.2, 5), damaged(wanted, 0.2, 6)
    few, many = (paired_change(CHRF(), one[:count], two[:count], wanted[:count]) for count in (100, 1600))
    assert many.high - many.low < 0.5 * (few.high - few.low)
    assert few == paired_change(CHRF(), one[:100], two[:100], wanted[:100])
