"""From source ids to the target pieces that a sentence may choose from."""

from __future__ import annotations

import numpy as np
import onnx

from xuanzang.export import tensors
from xuanzang.export.builder import GraphBuilder
from xuanzang.model.config import TransformerConfig
from xuanzang.model.data.shortlist import Ints, Shortlist

LANES = 64
"""Rows of logits are as wide as whole numbers of what onnxruntime sums at a time: with its kernels, too, scores then do
not depend on how many pieces a sentence's neighbours have."""


def always_pieces(shortlist: Shortlist, config: TransformerConfig) -> Ints:
    """Return the pieces that every sentence may choose, filled up with the size of the vocabulary: no piece.

    Args:
        shortlist: Of the model's tokenisers.
        config: Of the model.
    """
    pieces = np.setdiff1d(shortlist.always, config.banned_ids)
    return np.pad(pieces.astype(np.int64), (0, -len(pieces) % LANES), constant_values=config.target_vocab_size)


def suggestions_graph(shortlist: Shortlist, config: TransformerConfig) -> onnx.ModelProto:
    """Build the graph that looks up what the pieces of sentences suggest besides the pieces that they always have.

    Args:
        shortlist: Of the model's tokenisers.
        config: Of the model.
    """
    graph = GraphBuilder("suggestions")
    always, nothing = always_pieces(shortlist, config), config.target_vocab_size
    suggested = shortlist.suggested.copy()
    # What fills a sentence up to the longest of its batch must not suggest anything.
    suggested[config.pad_id] = nothing
    suggested[np.isin(suggested, [*always, *config.banned_ids])] = nothing
    found = graph.op("Gather", graph.constant("suggested_pieces", suggested), "source_ids")
    found = graph.op("Reshape", found, graph.ints(0, -1))  # [batch, source · suggestion]
    rows = graph.op("Shape", "source_ids", start=0, end=1)
    shape = graph.op("Concat", rows, graph.ints(nothing + 1), axis=0)
    none = graph.op("Expand", graph.constant("false", [False], np.bool_), shape)
    true = graph.op("Expand", graph.constant("true", [True], np.bool_), graph.op("Shape", found))
    marked = graph.op("ScatterElements", none, found, true, axis=1)
    graph.op("Slice", marked, graph.ints(0), graph.ints(nothing), graph.ints(1), output="suggested")
    graph.op("Identity", graph.constant("always", always), output="always_ids")
    return graph.model(tensors.suggestions_inputs(), tensors.suggestions_outputs(config))
