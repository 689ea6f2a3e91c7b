"""Linear layers and embeddings as ONNX nodes, in floats or in 8-bit integers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from xuanzang.export.builder import MICROSOFT, GraphBuilder
from xuanzang.export.norms import quantized

FloatArray = npt.NDArray[np.float32]


class ActivationRange(NamedTuple):
    """Least and greatest value that a linear layer's input is expected to take; contains 0."""

    low: float
    high: float


class Linear(NamedTuple):
    """One or more linear layers over the same input, side by side."""

    name: str
    """Of the layer in the checkpoint, the first of several: its calibrated range is used."""
    weight: FloatArray
    """[in, out]."""
    bias: FloatArray | None
    """[out]."""


class Precision(Protocol):
    """How weights are stored and multiplied."""

    name: str
    """As in the manifest: "float32", "float16" or "int8"."""

    def linear(self, graph: GraphBuilder, x: str, layer: Linear) -> str:
        """Add nodes for x W + b, where x is [batch, length, in]; return the result's name."""

    def columns(self, graph: GraphBuilder, layer: Linear, ids: str) -> None:
        """Add nodes for the columns `ids` of a layer, the outputs of `tensors.projection_outputs`."""

    def product(self, graph: GraphBuilder, x: str, name: str) -> str:
        """Add nodes for the product of x with such columns of the layer `name`; return the result's name."""

    def embedding(self, graph: GraphBuilder, ids: str, name: str, table: FloatArray) -> str:
        """Add nodes that look up rows of `table` [vocab, model]; return the name of [batch, length, model]."""


class Floats:
    """Weights as they were trained, or rounded to 16 bits: for GPUs, which compute with these twice as fast."""

    def __init__(self, name: str) -> None:
        """Compute in "float32" or "float16"."""
        self.name = name

    def linear(self, graph: GraphBuilder, x: str, layer: Linear) -> str:
        """Add a matrix product and a sum."""
        product = graph.op("MatMul", x, graph.constant(f"{layer.name}.weight", layer.weight, self.name))
        if layer.bias is None:
            return product
        bias = np.maximum(layer.bias, np.finfo(self.name).min)  # NEVER is beyond 16 bits
        return graph.op("Add", product, graph.constant(f"{layer.name}.bias", bias, self.name))

    def columns(self, graph: GraphBuilder, layer: Linear, ids: str) -> None:
        """Add gathers."""
        # Stored by columns, so that each is copied as a whole.
        weight = graph.constant("columns", 2 * layer.weight.T, self.name)
        graph.op("Gather", weight, ids, output="output_weight")
        _gather_bias(graph, layer, ids)

    def product(self, graph: GraphBuilder, x: str, name: str) -> str:  # noqa: ARG002 - of every precision
        """Add a matrix product and a sum."""
        # Half of the double is exact, and any factor but 1 keeps onnxruntime from a kernel for a single row that rounds
        # differently: then a greedy search would depend on its neighbours.
        product = graph.op("FusedMatMul", x, "output_weight", domain=MICROSOFT, transB=1, alpha=0.5)
        return graph.op("Add", graph.cast(product, "float32"), "output_bias")

    def embedding(self, graph: GraphBuilder, ids: str, name: str, table: FloatArray) -> str:
        """Add a gather."""
        return graph.op("Gather", graph.constant(name, table, self.name), ids)


class Int8:
    """Static quantisation: calibrated unsigned activations, symmetric signed weights with a scale per output column.

    Scales that do not depend on the input make the product of a row independent of the other rows of the batch, which a
    scale taken from the batch at run time would not.
    """

    name = "int8"

    def __init__(self, ranges: Mapping[str, ActivationRange]) -> None:
        """Quantise with the ranges of each linear layer's input, by layer name."""
        self._ranges = ranges

    def linear(self, graph: GraphBuilder, x: str, layer: Linear) -> str:
        """Add a quantisation of x and an integer product that is scaled back to floats."""
        weight, scale = quantize_columns(layer.weight)
        bias = "" if layer.bias is None else graph.constant(f"{layer.name}.bias", layer.bias)
        stored = graph.constant(f"{layer.name}.weight", weight)
        return self._product(graph, x, layer.name, stored, graph.constant(f"{layer.name}.weight_scale", scale), bias)

    def columns(self, graph: GraphBuilder, layer: Linear, ids: str) -> None:
        """Add gathers of integers and of their scales."""
        weight, scale = quantize_columns(layer.weight)
        rows = graph.op("Gather", graph.constant("columns", weight.T), ids)
        graph.op("Transpose", rows, perm=[1, 0], output="output_weight")
        graph.op("Gather", graph.constant("scale", scale), ids, output="output_scale")
        _gather_bias(graph, layer, ids)

    def product(self, graph: GraphBuilder, x: str, name: str) -> str:
        """Add a quantisation of x and an integer product that is scaled back to floats."""
        return self._product(graph, x, name, "output_weight", "output_scale", "output_bias")

    def _product(self, graph: GraphBuilder, x: str, name: str, weight: str, weight_scale: str, bias: str) -> str:
        scale, zero = _affine(self._ranges[name])
        x_scale = graph.constant(f"{name}.x_scale", scale, np.float32)
        x_zero = graph.constant(f"{name}.x_zero", zero, np.uint8)
        return graph.op(
            "MatMulIntegerToFloat",
            quantized(graph, x, x_scale, x_zero),
            weight,
            x_scale,
            weight_scale,
            x_zero,
            "",
            *([bias] if bias else []),
            domain=MICROSOFT,
        )

    def embedding(self, graph: GraphBuilder, ids: str, name: str, table: FloatArray) -> str:
        """Add gathers of 8-bit rows and of their scales, and their product."""
        rows, scales = quantize_columns(table.T)
        values = graph.op("Cast", graph.op("Gather", graph.constant(name, rows.T), ids), to=1)
        return graph.op("Mul", values, graph.op("Gather", graph.constant(f"{name}.scale", scales[:, None]), ids))


def _gather_bias(graph: GraphBuilder, layer: Linear, ids: str) -> None:
    bias = np.zeros(layer.weight.shape[1], np.float32) if layer.bias is None else layer.bias
    graph.op("Gather", graph.constant("bias", bias), ids, output="output_bias")


def quantize_columns(weight: FloatArray) -> tuple[npt.NDArray[np.int8], FloatArray]:
    """Round each column to multiples of a 127th of its greatest magnitude.

    Args:
        weight: [in, out].

    Returns:
        [in, out] in -127..127, and the scale of each column, [out]; weight ≈ integers · scale.
    """
    scale = np.maximum(np.abs(weight).max(axis=0) / 127, 1e-12).astype(np.float32)
    return np.rint(weight / scale).astype(np.int8), scale


def _affine(bounds: ActivationRange) -> tuple[float, int]:
    """Return scale and zero point that map a range onto 0..255, with 0.0 on an integer."""
    scale = max(bounds.high - bounds.low, 1e-6) / 255
    return scale, int(np.clip(np.rint(-bounds.low / scale), 0, 255))
