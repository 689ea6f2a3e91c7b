"""Attention of a decoder step over keys and values that lie in pages (Kwon et al. 2023, arXiv:2309.06180).

Scores are computed page by page and gathered for the softmax of a sentence; its weights are scattered back to the
pages, and what these yield is summed. The inputs are those of `tensors.decoder_inputs`.
"""

from __future__ import annotations

import onnx

from xuanzang.export.builder import MICROSOFT, FunctionBuilder
from xuanzang.export.tensors import PAGE_SLOTS

HIDDEN = -1.0e4
"""Added to the score of a hidden key: its weight underflows to exactly 0."""


def paged_attention(num_heads: int, d_head: int, floats: str = "float32") -> onnx.FunctionProto:
    """Return the operator that writes the keys and values of a step and attends to the visible slots.

    Inputs: projected, which holds queries, keys and values side by side, [batch, beam, 3 · model]; past_key and
    past_value [page, heads, page_slot, head]; slot_indices; page_table; page_owners; visible.
    Outputs: mixed [batch, beam, model]; present_key and present_value, which may share the memory of the past ones.

    Args:
        floats: Type of states, keys and values: "float32", which has a kernel, or "float16".
    """
    graph = FunctionBuilder(_name("PagedAttention", floats))
    states = graph.op("Reshape", "projected", graph.ints(0, 0, 3 * num_heads, d_head))
    queries, keys, values = graph.multi_op("Split", states, outputs=3, axis=2, num_outputs=3)
    graph.op("ScatterND", "past_key", "slot_indices", keys, output="present_key")
    graph.op("ScatterND", "past_value", "slot_indices", values, output="present_value")
    scores = _scores(graph, queries, "present_key", d_head)
    weights = _softmax(graph, scores, graph.op("Unsqueeze", "visible", graph.ints(1)), floats)
    _mix(graph, weights, "present_value", num_heads, d_head, floats)
    return graph.function(
        ["projected", "past_key", "past_value", "slot_indices", "page_table", "page_owners", "visible"],
        ["mixed", "present_key", "present_value"],
    )


def cross_attention(num_heads: int, d_head: int, floats: str = "float32") -> onnx.FunctionProto:
    """Return the operator that attends to the source.

    Inputs: queries [batch, beam, model]; key and value [page, heads, page_slot, head]; page_table and page_owners of
    the source; source_lengths.
    Outputs: mixed [batch, beam, model]; attention, the weight of each source position averaged over the heads,
    [batch, beam, source], always float32.

    Args:
        floats: Type of states, keys and values: "float32", which has a kernel, or "float16".
    """
    graph = FunctionBuilder(_name("CrossAttention", floats))
    queries = graph.op("Reshape", "queries", graph.ints(0, 0, num_heads, d_head))
    weights = _source_weights(graph, queries, "key", d_head, floats)
    averaged = graph.op("ReduceMean", weights, graph.ints(1), keepdims=0)
    graph.op("Cast", averaged, to=onnx.TensorProto.FLOAT, output="attention")
    _mix(graph, weights, "value", num_heads, d_head, floats)
    return graph.function(
        ["queries", "key", "value", "page_table", "page_owners", "source_lengths"], ["mixed", "attention"]
    )


def first_head_attention(num_heads: int, d_head: int) -> onnx.FunctionProto:
    """Return the operator that tells where the first head looks in the source, which some models train to align words.

    Inputs: those of `cross_attention` but value.
    Outputs: attention, the head's weight of each source position, [batch, beam, source].
    """
    graph = FunctionBuilder("FirstHeadAttention")
    queries = graph.op("Reshape", "queries", graph.ints(0, 0, num_heads, d_head))
    first, second = graph.ints(0), graph.ints(1)
    queries = graph.op("Slice", queries, first, second, graph.ints(2))
    keys = graph.op("Slice", "key", first, second, second)
    weights = _source_weights(graph, queries, keys, d_head, "float32")
    graph.op("Squeeze", weights, second, output="attention")
    return graph.function(["queries", "key", "page_table", "page_owners", "source_lengths"], ["attention"])


def _source_weights(graph: FunctionBuilder, queries: str, keys: str, d_head: int, floats: str) -> str:
    """Return the weight of each source position, [batch, heads, beam, source], for queries as `_scores` takes them."""
    scores = _scores(graph, queries, keys, d_head)
    width = graph.op("Squeeze", graph.op("Shape", scores, start=3))
    positions = graph.op("Range", graph.scalar(0), width, graph.scalar(1))
    real = graph.op("Less", positions, graph.op("Unsqueeze", "source_lengths", graph.ints(1, 2, 3)))
    return _softmax(graph, scores, real, floats)


def _name(operator: str, floats: str) -> str:
    """Return a separate name for a type that has no kernel."""
    return operator if floats == "float32" else f"{operator}_{floats}"


def _scores(graph: FunctionBuilder, queries: str, keys: str, d_head: int) -> str:
    """Multiply queries [batch, beam, heads, head] with keys, page by page; return [batch, heads, beam, slot]."""
    owners = graph.op("Squeeze", graph.op("Gather", "page_owners", graph.ints(0), axis=1), graph.ints(1))  # [page]
    asked = graph.op("Gather", graph.op("Transpose", queries, perm=[0, 2, 1, 3]), owners)  # [page, heads, beam, head]
    scores = graph.op("FusedMatMul", asked, keys, domain=MICROSOFT, transB=1, alpha=d_head**-0.5)
    ordered = graph.op("Gather", scores, "page_table")  # [batch, logical_page, heads, beam, page_slot]
    return graph.op("Reshape", graph.op("Transpose", ordered, perm=[0, 2, 3, 1, 4]), graph.ints(0, 0, 0, -1))


def _softmax(graph: FunctionBuilder, scores: str, mask: str, floats: str) -> str:
    """Turn scores [batch, heads, beam, slot] into weights, which are 0 where the mask of as many axes is False."""
    shown, hidden = graph.constant("shown", 0.0, floats), graph.constant("hidden", HIDDEN, floats)
    return graph.op("Softmax", graph.op("Add", scores, graph.op("Where", mask, shown, hidden)), axis=-1)


def _mix(graph: FunctionBuilder, weights: str, values: str, num_heads: int, d_head: int, floats: str) -> None:
    """Sum values by weights [batch, heads, beam, slot], page by page, as the output "mixed" [batch, beam, model]."""
    ints = graph.ints
    split = graph.op("Reshape", weights, ints(0, 0, 0, -1, PAGE_SLOTS))
    of_pages = graph.op("GatherND", graph.op("Transpose", split, perm=[0, 3, 1, 2, 4]), "page_owners")
    yields = graph.op("Flatten", graph.op("MatMul", of_pages, values))  # [page, heads · beam · head]
    # An entry of the table without a page, -1, gathers the last page's yield, times 0.
    held = graph.op("GreaterOrEqual", "page_table", graph.scalar(0))
    present = graph.op("Unsqueeze", graph.cast(held, floats), ints(1))
    summed = graph.op("MatMul", present, graph.op("Gather", yields, "page_table"))
    heads = graph.op("Reshape", summed, ints(0, num_heads, -1, d_head))
    together = graph.op("Transpose", heads, perm=[0, 2, 1, 3])
    graph.op("Reshape", together, ints(0, 0, num_heads * d_head), output="mixed")
