"""The attention of the decoder as operators of our own: what they mean in operators that every runtime has."""

from __future__ import annotations

import numpy as np
import onnx

from xuanzang.export.builder import MICROSOFT, FunctionBuilder
from xuanzang.export.tensors import PAGE_SLOTS

HIDDEN = -1.0e4
"""Added to the score of a key that must not be seen: its weight underflows to exactly 0."""


def paged_attention(num_heads: int, d_head: int, floats: str = "float32") -> onnx.FunctionProto:
    """Return the operator that writes the step's keys and values into their slots and attends to those in sight.

    Scores are computed page by page, brought together for the softmax of a sentence, and its weights are given back to
    the pages; what these yield is summed.

    Arguments: projected, queries, keys and values side by side, [batch, beam, 3 · model]; past_key and past_value
    [page, heads, slot of the page, head]; slot_indices, page_table, page_places and visible of
    `tensors.decoder_inputs`.
    Results: mixed [batch, beam, model]; present_key and present_value, which may take the memory of the past ones.

    Args:
        num_heads: Of the model.
        d_head: Size of each.
        floats: Type of states, keys and values: "float32", for which there is a kernel, or "float16".
    """
    graph = FunctionBuilder(_name("PagedAttention", floats))
    ints = graph.ints
    states = graph.op("Reshape", "projected", ints(0, 0, 3 * num_heads, d_head))
    queries, keys, values = graph.multi_op("Split", states, outputs=3, axis=2, num_outputs=3)
    graph.op("ScatterND", "past_key", "slot_indices", keys, output="present_key")
    graph.op("ScatterND", "past_value", "slot_indices", values, output="present_value")
    owners = graph.op("Squeeze", graph.op("Gather", "page_places", ints(0), axis=1), ints(1))  # [page]
    asked = graph.op("Gather", graph.op("Transpose", queries, perm=[0, 2, 1, 3]), owners)  # [page, heads, beam, head]
    scores = graph.op("FusedMatMul", asked, "present_key", domain=MICROSOFT, transB=1, alpha=d_head**-0.5)
    placed = graph.op("Gather", scores, "page_table")  # [batch, place, heads, beam, slot of the page]
    placed = graph.op("Reshape", graph.op("Transpose", placed, perm=[0, 2, 3, 1, 4]), ints(0, 0, 0, -1))
    weights = _softmax(graph, placed, "visible", ints(1), floats)  # [batch, heads, beam, slot]
    split = graph.op("Reshape", weights, ints(0, 0, 0, -1, PAGE_SLOTS))
    of_pages = graph.op("GatherND", graph.op("Transpose", split, perm=[0, 3, 1, 2, 4]), "page_places")
    yields = graph.op("Flatten", graph.op("MatMul", of_pages, "present_value"))  # [page, heads · beam · head]
    # A place without page yields what some page does, times 0.
    held = graph.op("GreaterOrEqual", "page_table", graph.constant("first_page", 0, np.int64))
    present = graph.op("Unsqueeze", graph.cast(held, floats), ints(1))
    summed = graph.op("MatMul", present, graph.op("Gather", yields, "page_table"))
    _join(graph, graph.op("Reshape", summed, ints(0, num_heads, -1, d_head)), num_heads * d_head)
    return graph.function(
        ["projected", "past_key", "past_value", "slot_indices", "page_table", "page_places", "visible"],
        ["mixed", "present_key", "present_value"],
    )


def cross_attention(num_heads: int, d_head: int, floats: str = "float32") -> onnx.FunctionProto:
    """Return the operator that attends to the source.

    Arguments: queries [batch, beam, model]; key and value [batch, heads, source, head]; source_mask [batch, source].
    Results: mixed [batch, beam, model]; attention, what the heads give to each position on average,
    [batch, beam, source], always float32.

    Args:
        num_heads: Of the model.
        d_head: Size of each.
        floats: Type of states, keys and values: "float32", for which there is a kernel, or "float16".
    """
    graph = FunctionBuilder(_name("CrossAttention", floats))
    split = graph.op("Reshape", "queries", graph.ints(0, 0, num_heads, d_head))
    heads = graph.op("Transpose", split, perm=[0, 2, 1, 3])
    scores = graph.op("FusedMatMul", heads, "key", domain=MICROSOFT, transB=1, alpha=d_head**-0.5)
    weights = _softmax(graph, scores, "source_mask", graph.ints(1, 2), floats)  # [batch, heads, beam, source]
    observed = graph.op("ReduceMean", weights, graph.ints(1), keepdims=0)
    graph.op("Cast", observed, to=onnx.TensorProto.FLOAT, output="attention")
    _join(graph, graph.op("MatMul", weights, "value"), num_heads * d_head)
    return graph.function(["queries", "key", "value", "source_mask"], ["mixed", "attention"])


def _name(operator: str, floats: str) -> str:
    """Return another name for what there is no kernel for."""
    return operator if floats == "float32" else f"{operator}_{floats}"


def _softmax(graph: FunctionBuilder, scores: str, mask: str, axes: str, floats: str) -> str:
    """Turn scores [batch, heads, beam, position] into weights that are 0 where the mask, with new axes, is not True."""
    shown, hidden = graph.constant("shown", 0.0, floats), graph.constant("hidden", HIDDEN, floats)
    bias = graph.op("Unsqueeze", graph.op("Where", mask, shown, hidden), axes)
    return graph.op("Softmax", graph.op("Add", scores, bias), axis=-1)


def _join(graph: FunctionBuilder, heads: str, d_model: int) -> None:
    """Bring [batch, heads, beam, head] to the result "mixed" [batch, beam, model]."""
    together = graph.op("Transpose", heads, perm=[0, 2, 1, 3])
    graph.op("Reshape", together, graph.ints(0, 0, d_model), output="mixed")
