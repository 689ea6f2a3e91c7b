"""Logits of chosen pieces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.kernels.conftest import Arrays, Change, OpenOperator, normal

from xuanzang.export.operators.products import chosen_logits


def chosen_inputs(rng: np.random.Generator, batch: int, beam: int, width: int, choices: int = 200) -> Arrays:
    vocabulary = 300
    return {
        "x": rng.integers(0, 256, (batch, beam, width), dtype=np.uint8),
        "columns": rng.integers(-127, 128, (vocabulary, width), dtype=np.int8),
        "scales": np.abs(normal(rng, vocabulary)) / 100,
        "biases": normal(rng, vocabulary),
        "ids": rng.integers(0, vocabulary, (batch, choices)),
    }


@settings(max_examples=20)
@given(
    st.integers(1, 4), st.integers(1, 9), st.sampled_from([1, 63, 64, 256, 300]), st.sampled_from([0, 1, 64, 130, 200])
)
def test_logits_of_chosen_pieces(operator: OpenOperator, batch: int, beam: int, width: int, choices: int) -> None:
    inputs = chosen_inputs(np.random.default_rng(choices), batch, beam, width, choices)
    found = operator(chosen_logits(), inputs).check(inputs)["logits"]
    columns = inputs["columns"].astype(np.int64)[inputs["ids"]]
    products = inputs["x"].astype(np.int64) @ columns.transpose(0, 2, 1)
    scales, biases = (inputs[name].astype(np.float64)[inputs["ids"]][:, None] for name in ("scales", "biases"))
    np.testing.assert_allclose(found, products * scales + biases, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("ids", lambda array: array - 1000, "a piece does not exist"),
        ("ids", lambda array: array + 1000, "a piece does not exist"),
        ("ids", lambda array: array[1:], "batches differ"),
        ("columns", lambda array: array[:, 1:], "x and columns differ in width"),
        ("scales", lambda array: array[1:], "a column has no scale or no bias"),
        ("biases", lambda array: array[1:], "a column has no scale or no bias"),
    ],
)
def test_wrong_choices_are_refused(fastest: OpenOperator, name: str, change: Change, message: str) -> None:
    inputs = chosen_inputs(np.random.default_rng(1), 2, 4, 16)
    project = fastest(chosen_logits(), inputs)
    project.refuses(inputs | {name: change(inputs[name])}, message)


def test_several_threads_compute_the_same_logits(operator: OpenOperator) -> None:
    inputs = chosen_inputs(np.random.default_rng(11), 8, 4, 512, choices=256)
    operator(chosen_logits(), inputs, threads=2).check_equal(operator(chosen_logits(), inputs), inputs)
