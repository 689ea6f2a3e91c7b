"""The choice of the best continuations of each sentence, from logits."""

from __future__ import annotations

import numpy as np
import onnx

from xuanzang.export.builder import FunctionBuilder

GROUP = 32
"""Pieces in a group; the maximum of a group is compared before any of its pieces is."""
NEVER = -1.0e9
"""Logit of a piece that must not be chosen; finite, so that sums with it stay finite."""


def best_continuations() -> onnx.FunctionProto:
    """Return the operator that chooses the best continuations of each sentence.

    The best n pieces of a hypothesis lie in the n groups with the greatest maxima, so only a few groups are searched: a
    maximum over groups takes a fifth of the time of a top-k over the vocabulary.

    Inputs: logits [batch, beam, vocab], where vocab is a multiple of GROUP; scores, the summed log-probabilities of the
    hypotheses, [batch, beam]; count [1]; banned_ids [banned], whose probability goes to no other piece.
    Outputs: best_scores, the summed log-probabilities; best_ids, the added pieces; best_parents, the continued
    hypotheses; [batch, count] each, best first.
    """
    graph = FunctionBuilder("BestContinuations")
    log_probs = _ban(graph, graph.op("LogSoftmax", "logits", axis=-1))
    # Piece i is in group i mod groups: columns side by side reduce fastest.
    grouped = graph.op("Reshape", log_probs, graph.ints(0, 0, GROUP, -1))  # [batch, beam, GROUP, groups]
    maxima = graph.op("ReduceMax", grouped, graph.ints(2), keepdims=0)  # [batch, beam, groups]
    groups = graph.op("Shape", maxima, start=2, end=3)
    _, best = graph.multi_op("TopK", maxima, graph.op("Min", "count", groups), outputs=2, axis=-1)
    offsets = graph.op("Mul", graph.constant("group_members", np.arange(GROUP), np.int64), groups)
    members = graph.op("Add", graph.op("Unsqueeze", best, graph.ints(3)), offsets)  # [batch, beam, best, GROUP]
    members = graph.op("Reshape", members, graph.ints(0, 0, -1))
    values = graph.op("GatherElements", log_probs, members, axis=-1)
    per_hypothesis = graph.op("Min", "count", graph.op("Shape", values, start=2, end=3))
    gains, ranks = graph.multi_op("TopK", values, per_hypothesis, outputs=2, axis=-1)  # [batch, beam, per_hypothesis]
    ids = graph.op("Flatten", graph.op("GatherElements", members, ranks, axis=-1))
    totals = graph.op("Flatten", graph.op("Add", gains, graph.op("Unsqueeze", "scores", graph.ints(2))))
    wanted = graph.op("Min", "count", graph.op("Shape", totals, start=1, end=2))
    _, chosen = graph.multi_op("TopK", totals, wanted, outputs=["best_scores", "chosen"], axis=-1)
    graph.op("GatherElements", ids, chosen, axis=1, output="best_ids")
    graph.op("Div", chosen, per_hypothesis, output="best_parents")
    return graph.function(["logits", "scores", "count", "banned_ids"], ["best_scores", "best_ids", "best_parents"])


def _ban(graph: FunctionBuilder, log_probs: str) -> str:
    # Changes the few where they are; a sum with a vector of biases would touch the whole vocabulary.
    shape = graph.op("Concat", graph.op("Shape", log_probs, start=0, end=2), graph.op("Shape", "banned_ids"), axis=0)
    never = graph.op("Expand", graph.constant("never", NEVER, np.float32), shape)
    return graph.op("ScatterElements", log_probs, graph.op("Expand", "banned_ids", shape), never, axis=-1)
