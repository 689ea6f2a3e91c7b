from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from quality_head_fit import BINS, agreement, auroc, fit_logistic

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


def test_a_certain_probability_lies_in_the_last_bin() -> None:
    report = agreement([1.0, 0.0], [0.0, 0.0], [True, False])
    assert [(each.pairs, each.mean_probability) for each in report.curve] == [(1, 0.0), (1, 1.0)]
    assert report.calibration_error == 0


def pairs(seed: int, count: int = 4000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return inputs, labels drawn from a logistic model, and the model's weights with the intercept."""
    random = np.random.default_rng(seed)
    inputs, weights = random.normal(size=(count, 3)), np.array([1.5, -0.7, 0.0, 0.4])
    logits = inputs @ weights[:-1] + weights[-1]
    return inputs, random.random(count) < 1 / (1 + np.exp(-logits)), weights


@pytest.mark.parametrize("seed", range(3))
def test_the_weights_that_drew_the_labels_are_found(seed: int) -> None:
    inputs, labels, expected = pairs(seed)
    weights, intercept = fit_logistic(inputs, labels, penalty=1e-6)
    assert np.allclose([*weights, intercept], expected, atol=0.2)


def test_a_penalty_keeps_the_weights_of_separable_labels_finite() -> None:
    inputs = np.array([[-1.0], [-0.5], [0.5], [1.0]])
    weights, intercept = fit_logistic(inputs, inputs[:, 0] > 0)
    assert 0 < weights[0] < 10
    assert intercept == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("label", [True, False])
def test_labels_of_one_kind_cannot_be_fitted(*, label: bool) -> None:
    with pytest.raises(ValueError, match="same label"):
        fit_logistic(np.zeros((3, 1)), np.full(3, label))
