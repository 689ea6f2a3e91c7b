"""Residual sum, normalisation and 8-bit integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.kernels.conftest import Arrays, Change, OpenOperator, normal

from xuanzang.export.operators.products import add_norm_clip_quantize, add_norm_quantize


def norm_inputs(rng: np.random.Generator, shape: tuple[int, ...], delta: tuple[int, ...]) -> Arrays:
    width = shape[-1]
    return {
        "x": 3 * normal(rng, *shape) + normal(rng, *shape[:-1], 1),
        "delta": normal(rng, *delta),
        "weight": normal(rng, width),
        "bias": normal(rng, width),
        "scale": np.array(rng.uniform(0.005, 0.05), dtype=np.float32),
        "zero": np.array(rng.integers(0, 256), dtype=np.uint8),
    }


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 9), st.sampled_from([1, 5, 16, 30, 64, 200]))
@pytest.mark.parametrize("repeated", ["nowhere", "in a batch", "in a beam", "everywhere"])
def test_add_norm_quantize_is_its_function(
    operator: OpenOperator, repeated: str, seed: int, batch: int, beam: int, width: int
) -> None:
    delta = {"nowhere": (batch, beam, width), "in a batch": (beam, width), "in a beam": (batch, 1, width)}
    inputs = norm_inputs(np.random.default_rng(seed), (batch, beam, width), delta.get(repeated, (1, 1, width)))
    add = operator(add_norm_quantize(), inputs)
    found = add.run(inputs)
    integers, total, normed = add.function.run(None, inputs)
    np.testing.assert_array_equal(found["total"], total)
    np.testing.assert_allclose(found["normed"], normed, rtol=1e-4, atol=1e-5)
    # What is in the middle between two integers may be rounded up or down.
    exact = np.clip(normed / inputs["scale"] + inputs["zero"], 0, 255)
    assert np.abs(found["integers"] - exact).max() < 0.5 + 1e-2
    assert (found["integers"] != integers).mean() < 0.02


def clipped(inputs: Arrays, largest: int = 127) -> Arrays:
    """Return inputs of the operator that cuts what is beyond some integers on both sides."""
    scale = inputs["scale"]
    bounds = {"low": -largest * scale, "high": np.float32(127) * scale, "zero": np.array(128, np.uint8)}
    return inputs | {
        name: np.array(value, inputs[name].dtype if name in inputs else np.float32) for name, value in bounds.items()
    }


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.sampled_from([1, 5, 16, 30, 64, 200]))
def test_marians_normalisation_is_cut_on_both_sides(operator: OpenOperator, seed: int, beam: int, width: int) -> None:
    inputs = clipped(norm_inputs(np.random.default_rng(seed), (2, beam, width), (2, beam, width)))
    add = operator(add_norm_clip_quantize(), inputs)
    found = add.run(inputs)
    integers, total, normed = add.function.run(None, inputs)
    np.testing.assert_array_equal(found["total"], total)
    np.testing.assert_allclose(found["normed"], normed, rtol=1e-4, atol=1e-5)
    exact = np.clip(normed / inputs["scale"], -127, 127) + 128
    assert np.abs(found["integers"] - exact).max() < 0.5 + 1e-2
    assert (found["integers"] != integers).mean() < 0.02


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"high": np.array(0.1, np.float32)}, "the upper bound is not that of the integers"),
        ({"low": np.array(-100, np.float32)}, "the lower bound is below the integers"),
        ({"scale": np.array(0, np.float32)}, "the scale is not a positive number"),
    ],
)
def test_bounds_that_integers_do_not_have_are_refused(fastest: OpenOperator, changes: Arrays, message: str) -> None:
    inputs = clipped(norm_inputs(np.random.default_rng(1), (2, 4, 16), (2, 4, 16)))
    add = fastest(add_norm_clip_quantize(), inputs)
    add.refuses(inputs | changes, message)


def test_integers_reach_from_0_to_255(operator: OpenOperator) -> None:
    inputs = norm_inputs(np.random.default_rng(0), (2, 3, 64), (2, 3, 64)) | {"scale": np.array(0.001, np.float32)}
    integers = operator(add_norm_quantize(), inputs).run(inputs)["integers"]
    assert {integers.min(), integers.max()} == {0, 255}


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("delta", lambda array: array[:, :2], "what is added is neither as x nor repeated"),
        ("delta", lambda array: array[:, :, 1:], "x and what is added differ in width"),
        ("weight", lambda array: array[1:], "weight and bias are not as wide as x"),
        ("scale", lambda array: -array, "the scale is not a positive number"),
    ],
)
def test_a_wrong_sum_is_refused(fastest: OpenOperator, name: str, change: Change, message: str) -> None:
    inputs = norm_inputs(np.random.default_rng(1), (2, 4, 16), (2, 4, 16))
    add = fastest(add_norm_quantize(), inputs)
    add.refuses(inputs | {name: change(inputs[name])}, message)
