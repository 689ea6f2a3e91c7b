"""The end of the decoder graph: from logits to the best continuations of each sentence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xuanzang.export.builder import GraphBuilder

GROUP = 32
"""Pieces whose greatest log-probability is looked at before any of them is."""
NEVER = -1.0e9
"""Logit of what must not be chosen; finite, so that sums with it stay finite."""


def edit_logits(graph: GraphBuilder, logits: str) -> str:
    """Add nodes that change the logits of the ids in `edited_ids`; see `tensors.decoder_inputs`.

    Args:
        graph: To add to.
        logits: [batch, beam, vocab].

    Returns:
        Name of the changed logits.
    """
    penalties = "edit_penalties"
    before = graph.op("GatherElements", logits, "edited_ids", axis=-1)
    # x · p² / p where x is negative, x / p elsewhere: the repetition penalty of CTRL (arXiv:1909.05858, section 4.1).
    penalised = graph.op("Div", graph.op("PRelu", before, graph.op("Mul", penalties, penalties)), penalties)
    after = graph.op("Add", penalised, "edit_biases")
    return graph.op("ScatterElements", logits, "edited_ids", after, axis=-1)


def log_probabilities(graph: GraphBuilder, logits: str, banned_ids: Sequence[int] = ()) -> str:
    """Add nodes that normalise logits.

    Args:
        graph: To add to.
        logits: [batch, beam, vocab].
        banned_ids: Pieces that must not be chosen; their probability goes to no other.

    Returns:
        Name of the log-probabilities, [batch, beam, vocab].
    """
    log_probs = graph.op("LogSoftmax", logits, axis=-1)
    if not banned_ids:
        return log_probs
    banned = graph.constant("banned_ids", [[banned_ids]], np.int64)
    # Changes the few where they are; a sum with a vector of biases would touch the whole vocabulary.
    rows = graph.op("Concat", graph.op("Shape", logits, start=0, end=2), graph.ints(len(banned_ids)), axis=0)
    never = graph.op("Expand", graph.constant("never", NEVER, np.float32), rows)
    return graph.op("ScatterElements", log_probs, graph.op("Expand", banned, rows), never, axis=-1)


def choose_candidates(graph: GraphBuilder, log_probs: str, piece_ids: str | None = None) -> None:
    """Add nodes for the `candidate_count` best continuations of each sentence.

    The best n of a row lie in the n groups with the greatest maxima, so that only a few groups are searched: a maximum
    over groups takes a fifth of the time of a top-k over the vocabulary.

    Args:
        graph: To add to; gets the outputs candidate_scores, candidate_ids and candidate_parents.
        log_probs: [batch, beam, vocab], where GROUP divides vocab.
        piece_ids: What those of each sentence belong to, [batch, vocab]; None for the ids 0, 1, 2 and so on.
    """
    # Piece i is in group i mod groups: columns side by side reduce fastest.
    grouped = graph.op("Reshape", log_probs, graph.ints(0, 0, GROUP, -1))  # [batch, beam, GROUP, groups]
    maxima = graph.op("ReduceMax", grouped, graph.ints(2), keepdims=0)  # [batch, beam, groups]
    groups = graph.op("Shape", maxima, start=2, end=3)
    _, best = graph.multi_op("TopK", maxima, graph.op("Min", "candidate_count", groups), outputs=2, axis=-1)
    offsets = graph.op("Mul", graph.constant("group_members", np.arange(GROUP), np.int64), groups)
    members = graph.op("Add", graph.op("Unsqueeze", best, graph.ints(3)), offsets)  # [batch, beam, best, GROUP]
    members = graph.op("Reshape", members, graph.ints(0, 0, -1))
    values = graph.op("GatherElements", log_probs, members, axis=-1)
    per_row = graph.op("Min", "candidate_count", graph.op("Shape", values, start=2, end=3))
    gains, ranks = graph.multi_op("TopK", values, per_row, outputs=2, axis=-1)  # [batch, beam, per_row]
    ids = graph.op("GatherElements", members, ranks, axis=-1)
    totals = graph.op("Add", gains, graph.op("Unsqueeze", "scores", graph.ints(2)))
    flat = graph.op("Flatten", totals)
    wanted = graph.op("Min", "candidate_count", graph.op("Shape", flat, start=1, end=2))
    _, places = graph.multi_op("TopK", flat, wanted, outputs=["candidate_scores", "places"], axis=-1)
    chosen = [graph.op("Flatten", ids), places]
    if piece_ids:
        chosen = [piece_ids, graph.op("GatherElements", *chosen, axis=1)]
    graph.op("GatherElements", *chosen, axis=1, output="candidate_ids")
    graph.op("Div", places, per_row, output="candidate_parents")
