"""Linear layers and feed-forward networks of 8-bit integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.kernels.conftest import Arrays, Change, OpenOperator

from xuanzang.export.operators.products import MATRIX, feed_forward, quantized_product


def states(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(0, 256, shape, dtype=np.uint8)


def matrix(rng: np.random.Generator, width: int, columns: int, prefix: str = "") -> Arrays:
    """Return a matrix whose scales are powers of 2, so that the order of multiplications does not matter."""
    arrays: tuple[np.ndarray, ...] = (
        rng.integers(-127, 128, (width, columns), dtype=np.int8),
        np.array([2.0**-6], np.float32),
        (2.0 ** rng.integers(-9, -5, columns)).astype(np.float32),
        rng.integers(0, 256, 1, dtype=np.uint8),
        (rng.integers(-64, 65, columns) / 8).astype(np.float32),
    )
    return {f"{prefix}{name}": array for name, array in zip(MATRIX, arrays, strict=True)}


def network(rng: np.random.Generator, width: int, inner: int, outer: int) -> Arrays:
    layers = matrix(rng, width, inner, "inner_") | matrix(rng, inner, outer, "outer_")
    return layers | {"outer_x_scale": np.array([2.0**-2], np.float32)}


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.tuples(st.integers(0, 4), st.integers(1, 30)),
    st.sampled_from([1, 6, 64, 100, 256]),
    st.sampled_from([1, 40, 256, 300, 768]),
    st.booleans(),
)
def test_a_quantized_product_is_its_function(
    operator: OpenOperator, seed: int, shape: tuple[int, int], width: int, columns: int, constant: bool
) -> None:
    rng = np.random.default_rng(seed)
    x, layer = {"x": states(rng, *shape, width)}, matrix(rng, width, columns)
    product = operator(quantized_product(), x if constant else x | layer, constants=layer if constant else {})
    given_to_run = x if constant else x | layer
    np.testing.assert_array_equal(product.run(given_to_run)["products"], product.function.run(None, given_to_run)[0])


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.tuples(st.integers(0, 4), st.integers(1, 30)),
    st.sampled_from([1, 6, 64]),
    st.sampled_from([1, 30, 256, 300]),
    st.sampled_from([1, 40, 256, 260]),
)
def test_a_feed_forward_network_is_its_function(
    operator: OpenOperator, seed: int, shape: tuple[int, int], width: int, inner: int, outer: int
) -> None:
    rng = np.random.default_rng(seed)
    x, layers = {"x": states(rng, *shape, width)}, network(rng, width, inner, outer)
    found = operator(feed_forward(), x, constants=layers)
    np.testing.assert_array_equal(found.run(x)["products"], found.function.run(None, x)[0])


def test_a_row_has_the_same_products_in_any_company_and_with_several_threads(operator: OpenOperator) -> None:
    rng = np.random.default_rng(4)
    x, layers = states(rng, 5, 67, 64), network(rng, 64, 512, 300)
    layers["inner_weight_scale"] = rng.random(512, np.float32) / 100
    together = operator(feed_forward(), {"x": x}, constants=layers, threads=2).run({"x": x})["products"]
    alone = operator(feed_forward(), {"x": x}, constants=layers)
    for row in (0, 13, 66):
        some = np.ascontiguousarray(x[2:3, row : row + 1])
        np.testing.assert_array_equal(alone.run({"x": some})["products"], together[2:3, row : row + 1])


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("x", lambda array: array[:, :, 1:], "x and columns differ in width"),
        ("inner_bias", lambda array: array[1:], "a column has no scale or no bias"),
        ("outer_x_scale", lambda array: -array, "the scale is not a positive number"),
        ("outer_weight", lambda array: array[1:], "the matrices do not fit together"),
    ],
)
def test_a_wrong_network_is_refused(fastest: OpenOperator, name: str, change: Change, message: str) -> None:
    if not fastest.has_products:  # type: ignore[attr-defined]
        pytest.skip("these instructions have no kernel for it")
    rng = np.random.default_rng(1)
    inputs = {"x": states(rng, 2, 3, 16)} | network(rng, 16, 32, 16)
    opened = fastest(feed_forward(), inputs)
    opened.refuses(inputs | {name: change(inputs[name])}, message)


@pytest.mark.parametrize("rows", [1, 3, 4, 15, 16, 17, 31, 32, 33, 90])
def test_all_instruction_sets_multiply_alike_to_the_last_bit(
    operators_with_products: list[OpenOperator], rows: int
) -> None:
    rng = np.random.default_rng(rows)
    x, layers = {"x": states(rng, rows, 128)}, network(rng, 128, 320, 128)
    for name in ("inner_weight_scale", "outer_weight_scale"):
        layers[name] = rng.normal(size=layers[name].shape).astype(np.float32)
    found = [operator(feed_forward(), x, constants=layers).run(x)["products"] for operator in operators_with_products]
    for products in found[1:]:
        np.testing.assert_array_equal(products, found[0])
