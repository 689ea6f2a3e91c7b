"""Products of 8-bit states with 8-bit weights, the operations between two of them, and rows of such weights."""

from __future__ import annotations

import numpy as np
import onnx

from xuanzang.export.builder import MICROSOFT, FunctionBuilder, GraphBuilder

EPSILON = 1e-5
"""Added to the variance by the normalisation."""
MARIAN_EPSILON = 1e-6
"""Added to the variance by that of Marian."""
MATRIX = ("weight", "x_scale", "weight_scale", "x_zero", "bias")
"""A linear layer: integers [in, out], scale of x, scales of the columns [out], zero point of x, biases [out]."""


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


def add_norm_clip_quantize() -> onnx.FunctionProto:
    """Return the same operator with Marian's normalisation, whose result is cut before it is rounded.

    Inputs: those of `add_norm_quantize`, with low and high, the least and the greatest value, before scale.
    """
    graph = FunctionBuilder("AddNormClipQuantize")
    graph.op("Add", "x", "delta", output="total")
    graph.op("LayerNormalization", "total", "weight", "bias", output="normed", epsilon=MARIAN_EPSILON, axis=-1)
    graph.op("QuantizeLinear", graph.op("Clip", "normed", "low", "high"), "scale", "zero", output="integers")
    inputs = ["x", "delta", "weight", "bias", "low", "high", "scale", "zero"]
    return graph.function(inputs, ["integers", "total", "normed"])


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


def chosen_logits() -> onnx.FunctionProto:
    """Return the operator that multiplies the hypotheses of each sentence by its own columns.

    Inputs: x, integers [batch, beam, in]; columns, integers [out, in]; their scales and biases [out]; ids, the columns
    of each sentence [batch, choice].
    Outputs: logits [batch, beam, choice].
    """
    graph = FunctionBuilder("ChosenLogits")
    columns = graph.op("Transpose", graph.op("Gather", "columns", "ids"), perm=[0, 2, 1])
    # Signed on both sides: on processors without VNNI onnxruntime's products of unsigned with signed integers overflow,
    # unless the signed ones are constants (EXACT_PRODUCTS in xuanzang.kernels).
    lowest = graph.constant("lowest", -128, np.int8)
    signed = graph.cast(graph.op("Add", graph.cast("x", "int32"), graph.cast(lowest, "int32")), "int8")
    product = graph.cast(graph.op("MatMulInteger", signed, columns, lowest), "float32")
    scales, biases = (
        graph.op("Unsqueeze", graph.op("Gather", name, "ids"), graph.ints(1)) for name in ("scales", "biases")
    )
    graph.op("Add", graph.op("Mul", product, scales), biases, output="logits")
    return graph.function(["x", "columns", "scales", "biases", "ids"], ["logits"])


def embedded_rows() -> onnx.FunctionProto:
    """Return the operator that looks up rows of a table and scales them.

    A kernel reads them from the packed output projection if that has the same integers, so that a table which serves
    as both is in memory once.

    Inputs: table, integers [row, width]; scale, one number; ids [...].
    Outputs: embedded [..., width].
    """
    graph = FunctionBuilder("EmbeddedRows")
    rows = graph.cast(graph.op("Gather", "table", "ids"), "float32")
    graph.op("Mul", rows, "scale", output="embedded")
    return graph.function(["table", "scale", "ids"], ["embedded"])
