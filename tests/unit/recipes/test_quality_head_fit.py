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


def test_overconfidence_is_the_calibration_error() -> None:
    report = agreement([0.95] * 4 + [0.05] * 2, [0.0] * 6, [True, True, False, False, False, False])
    assert report.calibration_error == pytest.approx((4 * 0.45 + 2 * 0.05) / 6)
    assert report.acceptable_share == pytest.approx(1 / 3)
    assert report.auroc_of_score == 0.5


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


def test_no_other_weights_have_a_greater_likelihood() -> None:
    inputs, labels, _ = pairs(7, count=300)
    weights, intercept = fit_logistic(inputs, labels, penalty=2.0)

    def loss(parameters: np.ndarray) -> float:
        logits = inputs @ parameters[:-1] + parameters[-1]
        signed = np.where(labels, logits, -logits)
        return float(np.logaddexp(0, -signed).sum() + (parameters[:-1] ** 2).sum())

    found = np.array([*weights, intercept])
    random = np.random.default_rng(0)
    others = [found + 0.01 * random.normal(size=len(found)) for _ in range(100)]
    assert all(loss(found) <= loss(other) for other in others)


def test_a_penalty_keeps_the_weights_of_separable_labels_finite() -> None:
    inputs = np.array([[-1.0], [-0.5], [0.5], [1.0]])
    weights, intercept = fit_logistic(inputs, inputs[:, 0] > 0)
    assert 0 < weights[0] < 10
    assert intercept == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("label", [True, False])
def test_labels_of_one_kind_cannot_be_fitted(*, label: bool) -> None:
    with pytest.raises(ValueError, match="same label"):
        fit_logistic(np.zeros((3, 1)), np.full(3, label))
