"""The end of a decoder step: from states to the best continuations of each sentence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xuanzang.export import tensors
from xuanzang.export.builder import GraphBuilder
from xuanzang.export.graphs.precision import Floats, Int8, Linear, Precision
from xuanzang.export.graphs.shortlist import Ints
from xuanzang.export.operators.continuations import GROUP, NEVER, best_continuations
from xuanzang.export.operators.products import chosen_logits
from xuanzang.export.operators.projected_continuations import (
    EDITS,
    INSPECTION,
    choose,
    choose_listed,
    edit_logits,
    inspect,
    projected_continuations,
    shortlisted_continuations,
)


def choose_from_all(
    graph: GraphBuilder, precision: Precision, x: str, projection: Linear, banned: Sequence[int]
) -> None:
    """Project states onto the vocabulary and choose continuations, whose outputs are outputs of the graph.

    With integers it is one operator.

    Args:
        x: States, [batch, beam, model].
        projection: Output projection of the model.
        banned: Pieces never chosen.
    """
    # Whole groups of `best_continuations`, with pieces never chosen.
    projection = _padded(projection, -projection.weight.shape[1] % GROUP)
    banned_ids = graph.constant("banned_ids", banned, np.int64)
    if isinstance(precision, Int8):
        operator = projected_continuations()
        factors = precision.factors(graph, x, projection)
        inputs = [*factors, "scores", "candidate_count", banned_ids, *EDITS, *INSPECTION]
        graph.call(operator, *inputs, outputs=list(operator.output), calls=[best_continuations()])
        return
    logits, width = precision.linear(graph, x, projection), projection.weight.shape[1] + projection.padding
    logits = graph.known(logits, "batch", "beam", width, dtype=tensors.floats_of(precision.name))
    edited = edit_logits(graph, _in_32_bits(graph, precision, logits))
    choose(graph, edited, banned_ids, ids="candidate_ids")
    inspect(graph, edited, banned_ids, ids="row_ids")


def choose_from_shortlist(graph: GraphBuilder, precision: Precision, x: str, projection: Linear, always: Ints) -> None:
    """Do the same among few pieces.

    Logits of the pieces that all sentences share are one product; those of a sentence's own pieces are computed for
    each sentence alone, so that nothing depends on its neighbours, not even rounding.

    Args:
        x: States, [batch, beam, model].
        projection: Output projection of the model.
        always: Pieces shared by all sentences, from `always_pieces`.
    """
    # The first id after the vocabulary is of a piece never chosen.
    everything = _padded(projection, 1).filled()
    common = everything.at(always)
    banned_ids = graph.constant("banned_ids", [], np.int64)
    common_ids = graph.constant("always_ids", always, np.int64)
    if isinstance(precision, Int8):
        factors, columns = precision.factors(graph, x, common), precision.columns(graph, everything)
        operator, calls = shortlisted_continuations(), [chosen_logits(), best_continuations()]
        choice = ["scores", "candidate_count", banned_ids, *EDITS, *INSPECTION]
        inputs = [*factors, *columns, "choices", common_ids, *choice]
        graph.call(operator, *inputs, outputs=list(operator.output), calls=calls)
        return
    logits = _in_32_bits(graph, precision, precision.linear(graph, x, common))
    logits = graph.op("Concat", logits, precision.chosen(graph, x, everything, "choices"), axis=-1)
    choose_listed(graph, graph.known(logits, "batch", "beam", "piece"), banned_ids, common_ids)


def _padded(projection: Linear, padding: int) -> Linear:
    bias = np.pad(projection.biases, (0, padding), constant_values=NEVER)
    return projection._replace(bias=bias, padding=padding)


def _in_32_bits(graph: GraphBuilder, precision: Floats, logits: str) -> str:
    return logits if precision.name == "float32" else graph.cast(logits, "float32")
