"""Logistic regression by Newton's method."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]
Labels = npt.NDArray[np.bool_]

# Newton's method doubles the correct digits in each round.
_MAX_ROUNDS = 50
_TOLERANCE = 1e-10


def fit(inputs: Matrix, labels: Labels, *, penalty: float = 1.0) -> tuple[Matrix, float]:
    """Find the weights that make labels likeliest, less a penalty on large weights.

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
    weights = np.zeros(columns.shape[1])
    for _ in range(_MAX_ROUNDS):
        likely = 1 / (1 + np.exp(-columns @ weights))
        gradient = columns.T @ (likely - labels) + penalties * weights
        curvature = (columns.T * (likely * (1 - likely))) @ columns + np.diag(penalties)
        step = np.linalg.solve(curvature, gradient)
        weights -= step
        if np.abs(step).max() < _TOLERANCE:
            break
    return weights[:-1], float(weights[-1])
