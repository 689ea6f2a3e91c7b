"""What stands between two linear layers: a residual sum, its normalisation, and the integers that are multiplied."""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx
from onnx import helper

from xuanzang.export.builder import FunctionBuilder, GraphBuilder

EPSILON = 1e-5
"""Of the normalisation."""


def quantized(graph: GraphBuilder, x: str, scale: str, zero: str) -> str:
    """Add a quantisation; if x was just made by a sum and its normalisation, all three become one operator.

    Args:
        graph: To add to.
        x: [..., model].
        scale: Of the integers.
        zero: The integer that stands for 0.0.

    Returns:
        Name of the integers.
    """
    last = graph.last_nodes(2)
    if not _is_normalised_sum(last, x):
        return graph.op("QuantizeLinear", x, scale, zero)
    add, norm = last
    graph.drop_nodes(2)
    integers = f"{x}_quantized"
    arguments = [*add.input, *norm.input[1:], scale, zero]
    graph.call(add_norm_quantize(), *arguments, outputs=[integers, *add.output, *norm.output])
    return graph.known_as(integers, add.output[0], "uint8")


def _is_normalised_sum(nodes: Sequence[onnx.NodeProto], x: str) -> bool:
    if [node.op_type for node in nodes] != ["Add", "LayerNormalization"]:
        return False
    add, norm = nodes
    epsilon = helper.get_node_attr_value(norm, "epsilon")
    return norm.output[0] == x and norm.input[0] == add.output[0] and math.isclose(epsilon, EPSILON, rel_tol=1e-6)


def add_norm_quantize() -> onnx.FunctionProto:
    """Return the operator that adds, normalises and rounds to 8-bit integers.

    Arguments: x [..., model]; delta, which is broadcast to it; weight and bias of the normalisation [model]; scale and
    zero of the integers.
    Results: integers, total and normed, all as x.
    """
    graph = FunctionBuilder("AddNormQuantize")
    graph.op("Add", "x", "delta", output="total")
    graph.op("LayerNormalization", "total", "weight", "bias", output="normed", epsilon=EPSILON, axis=-1)
    graph.op("QuantizeLinear", "normed", "scale", "zero", output="integers")
    return graph.function(["x", "delta", "weight", "bias", "scale", "zero"], ["integers", "total", "normed"])
