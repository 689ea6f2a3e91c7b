"""The pass that fuses sum, normalisation and quantisation."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from xuanzang.export.builder import GraphBuilder
from xuanzang.export.graphs.fusion import fuse_add_norm_quantize
from xuanzang.export.operators.products import EPSILON
from xuanzang.export.tensors import TensorSpec

WIDTH = 16
INPUTS = [TensorSpec(name, "float32", ("batch", "length", WIDTH)) for name in ("x", "delta")]
RNG = np.random.default_rng(3)
FEED = {spec.name: RNG.standard_normal((2, 3, WIDTH)).astype(np.float32) for spec in INPUTS}


def layers(
    scales: tuple[float, ...], *, epsilon: float = EPSILON, blocks: int = 1, computed_bias: bool = False
) -> onnx.ModelProto:
    """Return a graph of residual blocks, whose normalised states are quantised with each of the scales."""
    graph, x, integers = GraphBuilder("layers"), "x", []
    weight = graph.constant("weight", np.linspace(0.5, 1.5, WIDTH), np.float32)
    bias = graph.constant("bias", np.linspace(-0.3, 0.3, WIDTH), np.float32)
    for _ in range(blocks):
        x = graph.known(graph.op("Add", x, "delta"), "batch", "length", WIDTH)
        shift = graph.op("Neg", bias) if computed_bias else bias
        normed = graph.op("LayerNormalization", x, weight, shift, epsilon=epsilon)
        for scale in scales:
            step = graph.constant(f"scale_{scale}", scale, np.float32)
            integers.append(graph.op("QuantizeLinear", normed, step, graph.constant("zero", 128, np.uint8)))
    graph.op("Concat", *integers, axis=-1, output="integers")
    graph.op("Identity", x, output="total")
    width = WIDTH * len(integers)
    outputs = [("integers", "uint8", width), ("total", "float32", WIDTH)]
    return graph.model(INPUTS, [TensorSpec(name, dtype, ("batch", "length", size)) for name, dtype, size in outputs])


def run(model: onnx.ModelProto) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return [np.asarray(output) for output in session.run(None, FEED)]


def kinds(model: onnx.ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in model.graph.node)


@pytest.mark.parametrize("blocks", [1, 3])
def test_a_fused_graph_gives_the_same_integers_and_sums(blocks: int) -> None:
    expected = run(layers((0.02,), blocks=blocks))
    fused = fuse_add_norm_quantize(layers((0.02,), blocks=blocks))
    assert kinds(fused)["AddNormQuantize"] == blocks
    assert not kinds(fused) & Counter(["Add", "LayerNormalization", "QuantizeLinear"])
    for found, wanted in zip(run(fused), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_integers_get_the_known_shape_of_their_sum() -> None:
    fused = fuse_add_norm_quantize(layers((0.02,)))
    [operator] = [node for node in fused.graph.node if node.domain]
    [stated] = [value for value in fused.graph.value_info if value.name == operator.output[0]]
    shape = [axis.dim_param or axis.dim_value for axis in stated.type.tensor_type.shape.dim]
    assert (stated.type.tensor_type.elem_type, shape) == (onnx.TensorProto.UINT8, ["batch", "length", WIDTH])


def test_a_state_with_several_scales_keeps_its_nodes() -> None:
    graph = layers((0.02, 0.03))
    before = graph.SerializeToString()
    assert fuse_add_norm_quantize(graph).SerializeToString() == before


@pytest.mark.parametrize("change", [{"epsilon": 1e-6}, {"computed_bias": True}], ids=lambda change: next(iter(change)))
def test_what_the_operator_cannot_do_keeps_its_nodes(change: dict[str, Any]) -> None:
    assert kinds(fuse_add_norm_quantize(layers((0.02,), **change)))["AddNormQuantize"] == 0
