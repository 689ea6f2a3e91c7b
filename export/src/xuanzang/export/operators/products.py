"""Products of 8-bit states with 8-bit weights: a linear layer, and a feed-forward network."""

from __future__ import annotations

import onnx

from xuanzang.export.builder import MICROSOFT, FunctionBuilder, GraphBuilder

MATRIX = ("weight", "x_scale", "weight_scale", "x_zero", "bias")
"""A linear layer: integers [in, out], scale of x, scales of the columns [out], zero point of x, biases [out]."""


def quantized_product() -> onnx.FunctionProto:
    """Return the operator of a linear layer: integers x [..., in] and `MATRIX` in, products [..., out] out."""
    graph = FunctionBuilder("QuantizedProduct")
    _product(graph, "x", MATRIX, output="products")
    return graph.function(["x", *MATRIX], ["products"])


def feed_forward() -> onnx.FunctionProto:
    """Return the operator of two linear layers with a ReLU and a quantisation between them.

    A kernel keeps the inner states, the widest of the model, in the cache of the processor.

    Inputs: integers x [..., in]; `MATRIX` of both layers, with inner_ and outer_ before their names.
    Outputs: products [..., out].
    """
    graph = FunctionBuilder("FeedForward")
    inner, outer = ([f"{layer}_{name}" for name in MATRIX] for layer in ("inner", "outer"))
    states = graph.op("Relu", _product(graph, "x", inner))
    _, scale, _, zero, _ = outer
    _product(graph, graph.op("QuantizeLinear", states, scale, zero), outer, output="products")
    return graph.function(["x", *inner, *outer], ["products"])


def _product(graph: GraphBuilder, x: str, matrix: tuple[str, ...] | list[str], *, output: str | None = None) -> str:
    *factors, bias = matrix
    return graph.op("MatMulIntegerToFloat", x, *factors, "", bias, domain=MICROSOFT, output=output)
