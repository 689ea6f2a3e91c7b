from __future__ import annotations

import numpy as np
import pytest

from xuanzang.server.quality_fitting.logistic import fit


def pairs(seed: int, count: int = 4000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return inputs, labels drawn from a logistic model, and the model's weights with the intercept."""
    random = np.random.default_rng(seed)
    inputs, weights = random.normal(size=(count, 3)), np.array([1.5, -0.7, 0.0, 0.4])
    logits = inputs @ weights[:-1] + weights[-1]
    return inputs, random.random(count) < 1 / (1 + np.exp(-logits)), weights


@pytest.mark.parametrize("seed", range(3))
def test_the_weights_that_drew_the_labels_are_found(seed: int) -> None:
    inputs, labels, expected = pairs(seed)
    weights, intercept = fit(inputs, labels, penalty=1e-6)
    assert np.allclose([*weights, intercept], expected, atol=0.2)


def test_no_other_weights_have_a_greater_likelihood() -> None:
    inputs, labels, _ = pairs(7, count=300)
    weights, intercept = fit(inputs, labels, penalty=2.0)

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
    weights, intercept = fit(inputs, inputs[:, 0] > 0)
    assert 0 < weights[0] < 10
    assert intercept == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("label", [True, False])
def test_labels_of_one_kind_cannot_be_fitted(*, label: bool) -> None:
    with pytest.raises(ValueError, match="same label"):
        fit(np.zeros((3, 1)), np.full(3, label))
