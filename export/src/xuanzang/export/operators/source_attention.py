"""Self-attention of the encoder, over the tokens of all sentences one after another, without padding."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from xuanzang.export.builder import MICROSOFT, FunctionBuilder, GraphBuilder

NAME = "PackedSourceAttention"


class Padding(NamedTuple):
    """Description of the positions without token, for onnxruntime's attention."""

    mask: str
    """1 at tokens, else 0, [batch, source]."""
    zeros: str
    """[batch, source, 3 · model]."""


def padding(graph: GraphBuilder, width: str, dtype: str = "float32") -> Padding:
    """Add nodes for sentences of `source_lengths`.

    Args:
        graph: Graph or function to add them to.
        width: Name of 3 · model, [1].
        dtype: Type of the states.
    """
    length = graph.op("ReduceMax", "source_lengths", keepdims=1)
    positions = graph.op("Range", graph.scalar(0), graph.op("Squeeze", length), graph.scalar(1))
    real = graph.op("Less", positions, graph.op("Unsqueeze", "source_lengths", graph.ints(1)))
    shape = graph.op("Concat", graph.op("Shape", "source_lengths"), length, width, axis=0)
    zero = numpy_helper.from_array(np.zeros(1, dtype))
    return Padding(graph.op("Cast", real, to=TensorProto.INT32), graph.op("ConstantOfShape", shape, value=zero))


def attend(graph: GraphBuilder, projected: str, places: str, padding: Padding, num_heads: int) -> str:
    """Add attention by onnxruntime's operator, which takes sentences of one length, padded.

    Args:
        graph: Graph or function to add it to.
        projected: Name of queries, keys and values side by side, [1, token, 3 · model].
        places: Name of sentence and position of each token, [1, token, 2].
        padding: From `padding`.

    Returns:
        Name of [1, token, model].
    """
    padded = graph.op("ScatterND", padding.zeros, places, projected)
    parts = graph.multi_op("Split", padded, outputs=3, axis=-1, num_outputs=3)
    mixed = graph.op("MultiHeadAttention", *parts, "", padding.mask, domain=MICROSOFT, num_heads=num_heads)
    return graph.op("GatherND", mixed, places)


def packed_source_attention(num_heads: int) -> onnx.FunctionProto:
    """Return the operator that lets all tokens of a sentence attend to each other, with a quantised result.

    Inputs: projected [1, token, 3 · model], queries, keys and values of all sentences one after another, side by side;
    source_lengths [batch], whose sum is the number of tokens; places [1, token, 2], sentence and position of each,
    which kernels do not need; num_heads [1], for kernels; scale and zero of the integers.
    Outputs: integers [1, token, model].
    """
    graph = FunctionBuilder(NAME)
    mixed = attend(graph, "projected", "places", padding(graph, graph.op("Shape", "projected", start=2)), num_heads)
    graph.op("QuantizeLinear", mixed, "scale", "zero", output="integers")
    return graph.function(["projected", "source_lengths", "places", "num_heads", "scale", "zero"], ["integers"])
