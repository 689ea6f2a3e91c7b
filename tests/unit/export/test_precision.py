"""8-bit arithmetic against its definition."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from xuanzang.export.builder import GraphBuilder
from xuanzang.export.graphs.precision import ActivationRange, Floats, Int8, Linear, Precision, quantize_columns
from xuanzang.export.tensors import TensorSpec
from xuanzang.export.weight_store import row_blocks
from xuanzang.kernels import EXACT_PRODUCTS

finite = st.floats(-50, 50, width=32)


def run(precision: Precision, layer: Linear, x: np.ndarray) -> np.ndarray:
    builder = GraphBuilder("linear")
    builder.op("Identity", precision.linear(builder, "x", layer), output="y")
    size_in, size_out = layer.weight.shape
    model = builder.model(
        [TensorSpec("x", "float32", ("batch", "length", size_in))],
        [TensorSpec("y", "float32", ("batch", "length", size_out))],
    )
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry(*EXACT_PRODUCTS)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    [y] = session.run(None, {"x": x})
    return np.asarray(y)


@given(arrays.arrays(np.float32, (5, 3), elements=finite))
def test_quantised_columns_are_within_half_a_step(weight: np.ndarray) -> None:
    integers, scale = quantize_columns(weight)
    assert integers.dtype == np.int8
    assert np.abs(integers).max(initial=0) <= 127
    assert (np.abs(integers * scale - weight) <= scale / 2 + 1e-6).all()


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(-8, 0), st.floats(0.5, 8))
def test_int8_product_is_that_of_the_rounded_operands(seed: int, low: float, high: float) -> None:
    rng = np.random.default_rng(seed)
    weight, bias = rng.standard_normal((32, 8)).astype(np.float32), rng.standard_normal(8).astype(np.float32)
    x = rng.uniform(low, high, (2, 3, 32)).astype(np.float32)
    found = run(Int8({"layer": ActivationRange(low, high)}), Linear("layer", weight, bias), x)
    scale = (high - low) / 255
    zero = np.clip(np.rint(-low / scale), 0, 255)
    rounded = (np.clip(np.rint(x / np.float32(scale)) + zero, 0, 255) - zero) * scale
    integers, weight_scale = quantize_columns(weight)
    expected = rounded @ (integers * weight_scale) + bias
    # One activation may round the other way where x / scale is at a half.
    np.testing.assert_allclose(found, expected, atol=2 * scale * np.abs(weight).max())


def test_a_row_does_not_depend_on_its_batch() -> None:
    rng = np.random.default_rng(0)
    layer = Linear("layer", rng.standard_normal((64, 48)).astype(np.float32), None)
    x = rng.uniform(-3, 3, (7, 5, 64)).astype(np.float32)
    precision = Int8({"layer": ActivationRange(-2, 2)})
    together = run(precision, layer, x)
    for row in range(len(x)):
        np.testing.assert_array_equal(run(precision, layer, x[row : row + 1]), together[row : row + 1])


def test_float32_layer_is_a_matrix_product() -> None:
    rng = np.random.default_rng(1)
    weight, bias = rng.standard_normal((6, 4)).astype(np.float32), rng.standard_normal(4).astype(np.float32)
    x = rng.standard_normal((1, 3, 6)).astype(np.float32)
    np.testing.assert_allclose(run(Floats("float32"), Linear("layer", weight, bias), x), x @ weight + bias, atol=1e-5)


@pytest.mark.parametrize("precision", [Floats("float32"), Int8({})], ids=["float32", "int8"])
def test_embedding_looks_up_rows(precision: Precision) -> None:
    table = np.random.default_rng(2).standard_normal((9, 6)).astype(np.float32)
    builder = GraphBuilder("embedding")
    builder.op("Identity", precision.embedding(builder, "ids", "table", row_blocks(table)), output="rows")
    model = builder.model(
        [TensorSpec("ids", "int64", ("batch", "length"))], [TensorSpec("rows", "float32", ("batch", "length", 6))]
    )
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    [rows] = session.run(None, {"ids": np.array([[8, 0, 3]])})
    np.testing.assert_allclose(rows[0], table[[8, 0, 3]], atol=np.abs(table).max() / 127 / 2 + 1e-6)
