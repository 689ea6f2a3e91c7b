"""Linear layers and embeddings as ONNX nodes, in float32, float16 or 8-bit integers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xuanzang.export.builder import MICROSOFT, GraphBuilder
from xuanzang.export.weight_store import RowBlocks

FloatArray = npt.NDArray[np.float32]

_MIN_SCALE = 1e-12
"""Scale of a column of zeros."""
_BLOCK_COLUMNS = 8192
"""Columns that are rounded at a time, which bounds the memory for it."""


class ActivationRange(NamedTuple):
    """Expected minimum and maximum of a linear layer's input; contains 0."""

    low: float
    high: float


class Integers(NamedTuple):
    """Weights of a linear layer that a file has as integers already, which are not rounded again."""

    weight: npt.NDArray[np.int8]
    """[in, out]."""
    scale: FloatArray
    """Scale of each column, [out]; weight ≈ integers · scale."""
    x_scale: float
    """Scale of the input."""
    x_zero: int
    """Unsigned integer that stands for an input of 0."""
    x_bound: float | None
    """Magnitude that inputs are cut at before they are rounded; None for no cut but by the range of the integers."""


class Linear(NamedTuple):
    """One or more linear layers over the same input, side by side."""

    name: str
    """Name of the layer in the checkpoint, of several the first, whose calibrated range is used."""
    weight: FloatArray
    """[in, out]."""
    bias: FloatArray | None
    """[out]."""
    padding: int = 0
    """Last columns of the result whose weights are 0 and not in `weight`."""
    integers: Integers | None = None
    """The same weights as integers; None to round them where integers are wanted."""

    def filled(self) -> Linear:
        """Return the same layer with all of its weights."""
        right = (0, self.padding)
        integers = self.integers and self.integers._replace(
            weight=np.pad(self.integers.weight, ((0, 0), right)),
            scale=np.pad(self.integers.scale, right, constant_values=_MIN_SCALE),
        )
        return self._replace(weight=np.pad(self.weight, ((0, 0), right)), padding=0, integers=integers)

    def at(self, columns: npt.NDArray[np.int64]) -> Linear:
        """Return a layer of some of the columns, whose weights must all be there."""
        integers = self.integers and self.integers._replace(
            weight=self.integers.weight[:, columns], scale=self.integers.scale[columns]
        )
        return self._replace(weight=self.weight[:, columns], bias=self.biases[columns], integers=integers)

    def rows(self) -> RowBlocks:
        """Return all of the weights, [in, out]."""
        shape = (self.weight.shape[0], self.weight.shape[1] + self.padding)
        return RowBlocks(shape, lambda start, stop: np.pad(self.weight[start:stop], ((0, 0), (0, self.padding))))

    @property
    def biases(self) -> FloatArray:
        """The bias, or zeros, [out]."""
        return np.zeros(self.weight.shape[1] + self.padding, np.float32) if self.bias is None else self.bias


class Floats:
    """Trained weights, or rounded to 16 bits: for GPUs, which compute with these twice as fast."""

    def __init__(self, name: str) -> None:
        """Compute in "float32" or "float16", as in the manifest."""
        self.name = name

    def linear(self, graph: GraphBuilder, x: str, layer: Linear) -> str:
        """Add nodes for x W + b, where x is [batch, length, in]; return the result's name."""
        product = graph.op("MatMul", x, graph.constant(f"{layer.name}.weight", layer.rows(), self.name))
        if layer.bias is None:
            return product
        bias = np.maximum(layer.bias, np.finfo(self.name).min)  # NEVER is beyond 16 bits
        return graph.op("Add", product, graph.constant(f"{layer.name}.bias", bias, self.name))

    def chosen(self, graph: GraphBuilder, x: str, layer: Linear, ids: str) -> str:
        """Add nodes for x times some columns of a layer.

        Args:
            graph: Graph that gets the nodes.
            x: States, [batch, beam, in].
            ids: Columns of each sentence, [batch, choice].

        Returns:
            Name of the products, [batch, beam, choice], float32.
        """
        # Stored by columns, so that each is copied as a whole.
        columns = graph.op("Gather", graph.constant("columns", layer.weight.T, self.name), ids)
        product = graph.op("FusedMatMul", x, columns, domain=MICROSOFT, transB=1)
        biases = graph.op("Gather", graph.constant("column_biases", layer.biases), ids)
        return graph.op("Add", graph.cast(product, "float32"), graph.op("Unsqueeze", biases, graph.ints(1)))

    def embedding(self, graph: GraphBuilder, ids: str, name: str, table: RowBlocks) -> str:
        """Add nodes that look up rows of `table` [vocab, model]; return the name of [batch, length, model]."""
        return graph.op("Gather", graph.constant(name, table, self.name), ids)


class Int8:
    """Static quantisation: calibrated unsigned activations, symmetric signed weights with a scale per output column.

    With scales that do not depend on the input, the product of a hypothesis does not depend on its batch, as it would
    with a scale taken from the batch at run time.
    """

    name = "int8"

    def __init__(self, ranges: Mapping[str, ActivationRange]) -> None:
        """Take the range of the input of each linear layer that has no integers yet, by the layer's name."""
        self._ranges = ranges

    def linear(self, graph: GraphBuilder, x: str, layer: Linear) -> str:
        """Add a quantisation of x and an integer product that is scaled back to floats."""
        *product, bias = self.factors(graph, x, layer)
        return graph.op("MatMulIntegerToFloat", *product, *(["", bias] if bias else []), domain=MICROSOFT)

    def factors(self, graph: GraphBuilder, x: str, layer: Linear) -> list[str]:
        """Add a quantisation of x; return names in the order of `projected_continuations.MATRIX`, "" for no bias."""
        weight, scale = _columns(layer)
        weight = np.pad(weight, ((0, 0), (0, layer.padding)))
        scale = np.pad(scale, (0, layer.padding), constant_values=_MIN_SCALE)
        integers, x_scale, x_zero = self._quantized(graph, x, layer)
        return [
            integers,
            graph.constant(f"{layer.name}.weight", weight),
            x_scale,
            graph.constant(f"{layer.name}.weight_scale", scale),
            x_zero,
            "" if layer.bias is None else graph.constant(f"{layer.name}.bias", layer.bias),
        ]

    def columns(self, graph: GraphBuilder, layer: Linear) -> list[str]:
        """Add the constants that `chosen_logits` needs to multiply integers; return their names."""
        weight, scale = _columns(layer)
        x_scale, x_zero = self._input(layer)
        scale *= np.float32(x_scale)
        # The zero point times a column is the same for all x.
        bias = layer.biases - x_zero * scale * weight.sum(axis=0)
        return [
            graph.constant("columns", weight.T),
            graph.constant("column_scales", scale),
            graph.constant("column_biases", bias, np.float32),
        ]

    def _quantized(self, graph: GraphBuilder, x: str, layer: Linear) -> tuple[str, str, str]:
        """Add a quantisation of the input of a layer; return the names of the integers, their scale and zero point."""
        scale, zero = self._input(layer)
        x_scale = graph.constant(f"{layer.name}.x_scale", scale, np.float32)
        x_zero = graph.constant(f"{layer.name}.x_zero", zero, np.uint8)
        if layer.integers and (bound := layer.integers.x_bound):
            bounds = [
                graph.constant(f"{layer.name}.x_{end}", value, np.float32)
                for end, value in (("low", -bound), ("high", bound))
            ]
            x = graph.shared_op("Clip", x, *bounds)
        return graph.shared_op("QuantizeLinear", x, x_scale, x_zero), x_scale, x_zero

    def _input(self, layer: Linear) -> tuple[float, int]:
        """Return scale and zero point of the input of a layer."""
        if layer.integers:
            return layer.integers.x_scale, layer.integers.x_zero
        return _affine(self._ranges[layer.name])

    def embedding(self, graph: GraphBuilder, ids: str, name: str, table: RowBlocks) -> str:
        """Add gathers of 8-bit rows and of their scales, and their product."""
        parts = [quantize_columns(block.T) for block in table.blocks(np.float32)]
        rows = np.concatenate([integers.T for integers, _ in parts])
        scales = np.concatenate([scale for _, scale in parts])
        values = graph.op("Cast", graph.op("Gather", graph.constant(name, rows), ids), to=1)
        return graph.op("Mul", values, graph.op("Gather", graph.constant(f"{name}.scale", scales[:, None]), ids))


Precision = Floats | Int8
"""Storage and multiplication of weights."""


def _columns(layer: Linear) -> tuple[npt.NDArray[np.int8], FloatArray]:
    if layer.integers:
        return layer.integers.weight, layer.integers.scale
    return quantize_columns(layer.weight)


def quantize_columns(weight: FloatArray) -> tuple[npt.NDArray[np.int8], FloatArray]:
    """Round each column to multiples of a 127th of its greatest magnitude.

    Args:
        weight: Matrix, [in, out].

    Returns:
        Integers [in, out] from -127 to 127, and the scale of each column, [out]; weight ≈ integers · scale.
    """
    scale = np.empty(weight.shape[1], np.float32)
    integers = np.empty(weight.shape, np.int8)
    for start in range(0, weight.shape[1], _BLOCK_COLUMNS):
        some = slice(start, start + _BLOCK_COLUMNS)
        block = weight[:, some]
        scale[some] = np.maximum(np.abs(block).max(axis=0) / 127, _MIN_SCALE)
        integers[:, some] = np.rint(block / scale[some])
    return integers, scale


def _affine(bounds: ActivationRange) -> tuple[float, int]:
    """Return scale and zero point that map a range onto 0..255, with 0.0 on an integer."""
    scale = max(bounds.high - bounds.low, 1e-6) / 255
    return scale, int(np.clip(np.rint(-bounds.low / scale), 0, 255))
