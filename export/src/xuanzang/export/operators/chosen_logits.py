"""Logits of the pieces that each sentence chooses among."""

from __future__ import annotations

import onnx

from xuanzang.export.builder import FunctionBuilder


def chosen_logits() -> onnx.FunctionProto:
    """Return the operator that multiplies the hypotheses of each sentence by columns of its own.

    Inputs: x, integers [batch, beam, in]; columns, integers [out, in]; their scales and biases [out]; ids, the columns
    of each sentence [batch, choice].
    Outputs: logits [batch, beam, choice].
    """
    graph = FunctionBuilder("ChosenLogits")
    columns = graph.op("Transpose", graph.op("Gather", "columns", "ids"), perm=[0, 2, 1])
    product = graph.cast(graph.op("MatMulInteger", "x", columns), "float32")
    scales, biases = (
        graph.op("Unsqueeze", graph.op("Gather", name, "ids"), graph.ints(1)) for name in ("scales", "biases")
    )
    graph.op("Add", graph.op("Mul", product, scales), biases, output="logits")
    return graph.function(["x", "columns", "scales", "biases", "ids"], ["logits"])
