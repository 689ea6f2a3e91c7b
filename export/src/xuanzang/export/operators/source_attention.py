"""Self-attention of the encoder, whose result is quantised for the layer after it."""

from __future__ import annotations

import onnx
from onnx import TensorProto

from xuanzang.export.builder import MICROSOFT, FunctionBuilder


def source_attention(num_heads: int) -> onnx.FunctionProto:
    """Return the operator that lets all positions of a sentence attend to each other.

    What it gives for padding means nothing, and a kernel does not compute it.

    Inputs: projected [batch, source, 3 · model], queries, keys and values side by side; source_lengths [batch];
    num_heads [1], for kernels; scale and zero of the integers.
    Outputs: integers [batch, source, model].
    """
    graph = FunctionBuilder("SourceAttention")
    length = graph.op("Squeeze", graph.op("Shape", "projected", start=1, end=2))
    positions = graph.op("Range", graph.scalar(0), length, graph.scalar(1))
    real = graph.op("Less", positions, graph.op("Unsqueeze", "source_lengths", graph.ints(1)))
    mask = graph.op("Cast", real, to=TensorProto.INT32)
    parts = graph.multi_op("Split", "projected", outputs=3, axis=-1, num_outputs=3)
    mixed = graph.op("MultiHeadAttention", *parts, "", mask, domain=MICROSOFT, num_heads=num_heads)
    graph.op("QuantizeLinear", mixed, "scale", "zero", output="integers")
    return graph.function(["projected", "source_lengths", "num_heads", "scale", "zero"], ["integers"])
