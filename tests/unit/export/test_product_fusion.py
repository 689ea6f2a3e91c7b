"""The pass that fuses products with what surrounds them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from xuanzang.export.builder import MICROSOFT, GraphBuilder
from xuanzang.export.graphs.product_fusion import PADDING_IS_SKIPPED, fuse_products
from xuanzang.export.operators.source_attention import attend, padding
from xuanzang.export.tensors import TensorSpec

WIDTH, INNER, HEADS = 16, 24, 2
INPUTS = [
    TensorSpec("x", "uint8", (1, "token", WIDTH)),
    TensorSpec("source_lengths", "int64", ("batch",)),
    TensorSpec("places", "int64", (1, "token", 2)),
]
FEED = {
    "x": np.random.default_rng(3).integers(0, 256, (1, 8, WIDTH), dtype=np.uint8),
    "source_lengths": np.array([5, 3]),
    "places": np.array([[(0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (1, 0), (1, 1), (1, 2)]]),
}


def product(graph: GraphBuilder, x: str, width: int, columns: int, name: str, *, bias: bool = True) -> str:
    rng = np.random.default_rng(len(name))
    factors = [
        graph.constant(f"{name}.weight", rng.integers(-127, 128, (width, columns)), np.int8),
        graph.constant(f"{name}.x_scale", 0.02, np.float32),
        graph.constant(f"{name}.weight_scale", rng.uniform(0.001, 0.01, columns), np.float32),
        graph.constant(f"{name}.x_zero", 120, np.uint8),
    ]
    rest = ["", graph.constant(f"{name}.bias", rng.normal(size=columns), np.float32)] if bias else []
    return graph.op("MatMulIntegerToFloat", x, *factors, *rest, domain=MICROSOFT)


def quantized(graph: GraphBuilder, x: str, name: str) -> str:
    """Quantise the input of a product; with another name than the product's the scale is another, too."""
    scale = graph.constant(f"{name}.x_scale", 0.02, np.float32)
    return graph.op("QuantizeLinear", x, scale, graph.constant(f"{name}.x_zero", 120, np.uint8))


def encoder(
    activation: str = "Relu", *, bias: bool = True, shared: bool = False, scale: str = "outer"
) -> onnx.ModelProto:
    """Return a layer of an encoder: attention, and a network whose inner state another node may take, too."""
    graph = GraphBuilder("encoder")
    gaps = padding(graph, graph.ints(3 * WIDTH))
    mixed = attend(graph, product(graph, "x", WIDTH, 3 * WIDTH, "qkv"), "places", gaps, HEADS)
    inner = product(graph, quantized(graph, mixed, "inner"), WIDTH, INNER, "inner", bias=bias)
    active = graph.op(activation, inner)
    if shared:
        graph.op("Identity", active, output="also")
    outer = product(graph, quantized(graph, active, scale), INNER, WIDTH, "outer")
    graph.op("Identity", outer, output="y")
    outputs = [("y", WIDTH), *([("also", INNER)] if shared else [])]
    return graph.model(INPUTS, [TensorSpec(name, "float32", (1, "token", width)) for name, width in outputs])


def run(model: onnx.ModelProto) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return [np.asarray(output) for output in session.run(None, FEED)]


def kinds(model: onnx.ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in model.graph.node)


def test_a_fused_encoder_gives_the_same_states() -> None:
    expected, fused = run(encoder()), fuse_products(encoder())
    assert kinds(fused) == Counter(QuantizedProduct=1, PackedSourceAttention=1, FeedForward=1, Identity=1)
    assert {each.key: each.value for each in fused.metadata_props} == PADDING_IS_SKIPPED
    for found, wanted in zip(run(fused), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_operators_have_stated_shapes() -> None:
    fused = fuse_products(encoder())
    stated = {value.name: value.type.tensor_type for value in fused.graph.value_info}
    shapes = {
        node.op_type: [axis.dim_param or axis.dim_value for axis in stated[node.output[0]].shape.dim]
        for node in fused.graph.node
        if node.domain
    }
    assert shapes == {
        "QuantizedProduct": [1, "token", 3 * WIDTH],
        "PackedSourceAttention": [1, "token", WIDTH],
        "FeedForward": [1, "token", WIDTH],
    }


@pytest.mark.parametrize(
    "change", [{"activation": "Sigmoid"}, {"shared": True}, {"scale": "another"}], ids=lambda change: next(iter(change))
)
def test_a_network_that_the_operator_cannot_do_has_two_products(change: dict[str, Any]) -> None:
    fused = fuse_products(encoder(**change))
    assert kinds(fused)["QuantizedProduct"] == 3
    assert not kinds(fused)["FeedForward"]
    for found, wanted in zip(run(fused), run(encoder(**change)), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_a_product_without_bias_keeps_its_node() -> None:
    fused = fuse_products(encoder(bias=False))
    assert (kinds(fused)["MatMulIntegerToFloat"], kinds(fused)["QuantizedProduct"]) == (1, 2)
