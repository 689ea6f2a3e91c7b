"""Residual sum, normalisation and quantisation: what stands between two linear layers of int8 graphs."""

from __future__ import annotations

import onnx

from xuanzang.export.builder import FunctionBuilder

EPSILON = 1e-5
"""Added to the variance by the normalisation."""


def add_norm_quantize() -> onnx.FunctionProto:
    """Return the operator that adds, normalises and rounds to 8-bit integers.

    Inputs: x [..., model]; delta, which is broadcast to it; weight and bias of the normalisation [model]; scale and
    zero of the integers.
    Outputs: integers, total and normed, all shaped as x.
    """
    graph = FunctionBuilder("AddNormQuantize")
    graph.op("Add", "x", "delta", output="total")
    graph.op("LayerNormalization", "total", "weight", "bias", output="normed", epsilon=EPSILON, axis=-1)
    graph.op("QuantizeLinear", "normed", "scale", "zero", output="integers")
    return graph.function(["x", "delta", "weight", "bias", "scale", "zero"], ["integers", "total", "normed"])
