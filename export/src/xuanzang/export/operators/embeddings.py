"""Embeddings of tokens from a table of 8-bit integers."""

from __future__ import annotations

import onnx

from xuanzang.export.builder import FunctionBuilder


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
