"""The tokens of all sentences of a batch, one after another, and the slots that they are written to."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xuanzang.export import tensors
from xuanzang.export.builder import GraphBuilder


class SourceTokens(NamedTuple):
    """Names of each token's attributes."""

    places: str
    """Sentence and position, [1, token, 2]."""
    ids: str
    """[1, token]."""
    sentences: str
    """[1, token, 1]."""
    positions: str
    """[1, token, 1]."""


def source_tokens(graph: GraphBuilder) -> SourceTokens:
    """Add nodes that find the tokens of `source_ids`, `source_lengths` for each sentence."""
    length = graph.op("Squeeze", graph.op("Shape", "source_ids", start=1, end=2))
    columns = graph.op("Range", graph.scalar(0), length, graph.scalar(1))
    real = graph.op("Less", columns, graph.op("Unsqueeze", "source_lengths", graph.ints(1)))
    places = graph.op("Unsqueeze", graph.op("Transpose", graph.op("NonZero", real)), graph.ints(0))
    ids = graph.op("GatherND", "source_ids", places)
    return SourceTokens(places, ids, *graph.multi_op("Split", places, outputs=2, axis=2, num_outputs=2))


def source_slots(graph: GraphBuilder, tokens: SourceTokens, num_heads: int) -> str:
    """Add nodes that find where keys and values are written; return the name of [1, token, heads, 3]."""
    page_slots = graph.scalar(tensors.PAGE_SLOTS)
    entries = graph.op("Concat", tokens.sentences, graph.op("Div", tokens.positions, page_slots), axis=2)
    pages = graph.op("Unsqueeze", graph.op("GatherND", "source_page_table", entries), graph.ints(2, 3))
    heads = graph.constant("heads", np.arange(num_heads)[:, None], np.int64)
    slots = graph.op("Unsqueeze", graph.op("Mod", tokens.positions, page_slots), graph.ints(3))
    shape = graph.op("Concat", graph.op("Shape", tokens.ids), graph.ints(num_heads, 1), axis=0)
    parts = [pages, heads, slots]
    return graph.op("Concat", *(graph.op("Expand", part, shape) for part in parts), axis=-1)


def write_key_values(graph: GraphBuilder, both: str, slots: str, num_heads: int, d_head: int, layer: int) -> None:
    """Write the keys and values of a decoder layer into their slots.

    Args:
        both: Keys and values of the source side by side, [1, token, 2 · model].
        slots: From `source_slots`.
        layer: Number of the layer.
    """
    heads = graph.op("Reshape", both, graph.ints(0, 0, 2 * num_heads, d_head))
    parts = graph.multi_op("Split", heads, outputs=2, axis=2, num_outputs=2)
    for part, states in zip(("key", "value"), parts, strict=True):
        name = f"cross_key_values.{layer}.{part}"
        graph.op("ScatterND", f"past_{name}", slots, states, output=f"present_{name}")
