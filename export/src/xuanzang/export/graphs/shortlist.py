"""The graph that looks up the target pieces that source pieces suggest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import onnx

from xuanzang.export import tensors
from xuanzang.export.builder import GraphBuilder
from xuanzang.export.weight_store import WeightStore

Ints = npt.NDArray[np.int64]

PIECES_STEP = 64
"""Logits are padded to a multiple of what onnxruntime sums at a time, so that scores do not depend on how many pieces
the neighbours of a sentence have."""


class Shortlist(Protocol):
    """Target pieces that sentences may be translated with."""

    @property
    def suggested(self) -> npt.NDArray[np.int32]:
        """Target pieces of each source piece, [source piece, suggestion]."""

    @property
    def always(self) -> npt.NDArray[np.int32]:
        """Target pieces that every sentence may use, ascending."""


class Pieces(tensors.Dimensions, Protocol):
    """Pieces with a meaning."""

    @property
    def pad_id(self) -> int:
        """Source piece that fills sentences up."""

    @property
    def banned_ids(self) -> Sequence[int]:
        """Target pieces never chosen."""


def always_pieces(shortlist: Shortlist, config: Pieces) -> Ints:
    """Return the pieces that every sentence may choose, padded with the size of the vocabulary, which is no piece.

    Args:
        shortlist: Suggestions for the model's tokenisers.
    """
    pieces = np.setdiff1d(shortlist.always, config.banned_ids)
    return np.pad(pieces.astype(np.int64), (0, -len(pieces) % PIECES_STEP), constant_values=config.target_vocab_size)


def suggestions_graph(shortlist: Shortlist, config: Pieces, weights: WeightStore | None = None) -> onnx.ModelProto:
    """Build the graph from source ids to the suggested pieces and the pieces that every sentence may choose.

    Args:
        shortlist: Suggestions for the model's tokenisers.
        weights: Store for the table; None to keep it in the graph.
    """
    graph = GraphBuilder("suggestions", weights)
    always, nothing = always_pieces(shortlist, config), config.target_vocab_size
    suggested = shortlist.suggested.copy()
    # Padding suggests nothing.
    suggested[config.pad_id] = nothing
    suggested[np.isin(suggested, [*always, *config.banned_ids])] = nothing
    found = graph.op("Gather", graph.constant("suggested_pieces", suggested), "source_ids")
    found = graph.op("Reshape", found, graph.ints(0, -1))  # [batch, source · suggestion]
    batch = graph.op("Shape", "source_ids", start=0, end=1)
    shape = graph.op("Concat", batch, graph.ints(nothing + 1), axis=0)
    none = graph.op("Expand", graph.constant("false", [False], np.bool_), shape)
    true = graph.op("Expand", graph.constant("true", [True], np.bool_), graph.op("Shape", found))
    marked = graph.op("ScatterElements", none, found, true, axis=1)
    graph.op("Slice", marked, graph.ints(0), graph.ints(nothing), graph.ints(1), output="suggested")
    graph.op("Identity", graph.constant("always", always), output="always_ids")
    return graph.model(tensors.suggestions_inputs(), tensors.suggestions_outputs(config))
