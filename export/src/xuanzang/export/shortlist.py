"""From source ids to the target pieces that a sentence may choose from."""

from __future__ import annotations

import numpy as np
import onnx

from xuanzang.export import tensors
from xuanzang.export.builder import GraphBuilder
from xuanzang.model.config import TransformerConfig
from xuanzang.model.data.shortlist import Shortlist


def suggestions_graph(shortlist: Shortlist, config: TransformerConfig) -> onnx.ModelProto:
    """Build the graph that looks up what the pieces of sentences suggest.

    Args:
        shortlist: Of the model's tokenisers.
        config: Of the model.
    """
    graph = GraphBuilder("suggestions")
    suggested = shortlist.suggested.copy()
    # What fills a sentence up to the longest of its batch must not suggest anything.
    suggested[config.pad_id] = shortlist.always[0]
    suggested[np.isin(suggested, config.banned_ids)] = shortlist.always[0]
    always = np.zeros((1, config.target_vocab_size), dtype=bool)
    always[0, shortlist.always] = True
    always[0, list(config.banned_ids)] = False
    found = graph.op("Gather", graph.constant("suggested_pieces", suggested), "source_ids")
    found = graph.op("Reshape", found, graph.ints(0, -1))  # [batch, source · suggestion]
    rows = graph.op("Shape", "source_ids", start=0, end=1)
    start = graph.op("Expand", graph.constant("always", always), graph.op("Concat", rows, graph.ints(1), axis=0))
    true = graph.op("Expand", graph.constant("true", [True], np.bool_), graph.op("Shape", found))
    graph.op("ScatterElements", start, found, true, axis=1, output="suggested")
    return graph.model(tensors.suggestions_inputs(), tensors.suggestions_outputs(config))
