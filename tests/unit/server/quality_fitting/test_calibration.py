from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from xuanzang.server.quality_fitting.calibration import BINS, agreement, auroc

labelled = st.lists(st.tuples(st.integers(0, 10), st.booleans()), min_size=2, max_size=30)


@given(labelled)
def test_the_auroc_is_the_share_of_pairs_in_the_right_order(elements: list[tuple[int, bool]]) -> None:
    assume(len({label for _, label in elements}) == 2)
    good = [value for value, label in elements if label]
    bad = [value for value, label in elements if not label]
    orders = [(a > b) + (a == b) / 2 for a in good for b in bad]
    values, labels = zip(*elements, strict=True)
    assert auroc(np.array(values, dtype=float), np.array(labels)) == pytest.approx(sum(orders) / len(orders))


def test_probabilities_by_which_labels_are_drawn_are_calibrated() -> None:
    random = np.random.default_rng(0)
    likely = random.random(20_000)
    report = agreement(likely.tolist(), likely.tolist(), (random.random(20_000) < likely).tolist())
    assert report.calibration_error < 0.02
    assert len(report.curve) == BINS
    assert sum(each.pairs for each in report.curve) == report.pairs


def test_overconfidence_is_the_calibration_error() -> None:
    report = agreement([0.95] * 4 + [0.05] * 2, [0.0] * 6, [True, True, False, False, False, False])
    assert report.calibration_error == pytest.approx((4 * 0.45 + 2 * 0.05) / 6)
    assert report.acceptable_share == pytest.approx(1 / 3)
    assert report.auroc_of_score == 0.5


def test_a_certain_probability_lies_in_the_last_bin() -> None:
    report = agreement([1.0, 0.0], [0.0, 0.0], [True, False])
    assert [(each.pairs, each.mean_probability) for each in report.curve] == [(1, 0.0), (1, 1.0)]
    assert report.calibration_error == 0
