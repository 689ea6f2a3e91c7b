"""The end of a decoder step as one operator, from quantised states to the best continuations, and its parts."""

from __future__ import annotations

import numpy as np
import onnx

from xuanzang.export.builder import MICROSOFT, FunctionBuilder, GraphBuilder
from xuanzang.export.operators.continuations import best_continuations

MATRIX = ("x", "weight", "x_scale", "weight_scale", "x_zero", "bias")
"""Factors of the projection: integers [batch, beam, in] and [in, vocab], scale of x, scales of the columns [vocab],
zero point of x, biases [vocab]."""
CHOICE = ("scores", "candidate_count", "banned_ids")
EDITS = ("edited_ids", "edit_penalties", "edit_biases")
INSPECTION = ("inspected_rows", "required_ids")


def projected_continuations() -> onnx.FunctionProto:
    """Return the operator that projects states onto the vocabulary and chooses continuations; calls BestContinuations.

    A kernel computes the logits block by block: they are needed nowhere else, and take 48 KB for each hypothesis. It
    leaves out beam positions without hypothesis, which have scores far below any sum of log-probabilities.

    Inputs: those of `MATRIX`; scores, candidate_count and banned_ids of `best_continuations`; the logit edits and the
    inspected hypotheses of `tensors.decoder_inputs`.
    Outputs: candidate_scores, candidate_ids, candidate_parents, row_scores, row_ids and required_scores of
    `tensors.decoder_outputs`.
    """
    graph = FunctionBuilder("ProjectedContinuations")
    integers, weight, x_scale, weight_scale, x_zero, bias = MATRIX
    factors = (integers, weight, x_scale, weight_scale, x_zero, "", bias)
    logits = edit_logits(graph, graph.op("MatMulIntegerToFloat", *factors, domain=MICROSOFT))
    choose(graph, logits, "banned_ids", ids="candidate_ids")
    inspect(graph, logits, "banned_ids", ids="row_ids")
    return graph.function(
        [*MATRIX, *CHOICE, *EDITS, *INSPECTION],
        ["candidate_scores", "candidate_ids", "candidate_parents", "row_scores", "row_ids", "required_scores"],
    )


def edit_logits(graph: GraphBuilder, logits: str) -> str:
    """Apply the logit edits of `tensors.decoder_inputs` to logits [batch, beam, vocab]."""
    penalties = "edit_penalties"
    before = graph.op("GatherElements", logits, "edited_ids", axis=-1)
    # x · p² / p where x is negative, x / p elsewhere: the repetition penalty of CTRL (arXiv:1909.05858, section 4.1).
    penalised = graph.op("Div", graph.op("PRelu", before, graph.op("Mul", penalties, penalties)), penalties)
    after = graph.op("Add", penalised, "edit_biases")
    return graph.op("ScatterElements", logits, "edited_ids", after, axis=-1)


def choose(graph: GraphBuilder, logits: str, banned_ids: str, *, ids: str) -> None:
    """Choose the best continuations of each sentence; `ids` is the name for their pieces."""
    outputs = ["candidate_scores", ids, "candidate_parents"]
    graph.call(best_continuations(), logits, "scores", "candidate_count", banned_ids, outputs=outputs)


def inspect(graph: GraphBuilder, logits: str, banned_ids: str, *, ids: str) -> None:
    """Score continuations of single hypotheses: the best of each, and required ones; `ids` is the name for the best.

    One operator does it that the step has anyway: each inspected row is a sentence with one hypothesis to it. Its best
    score is a logit less the logarithm of the sum of exponentials, and so gives that sum for the required ids.
    """
    vocab = graph.op("Shape", logits, start=2, end=3)
    shape = graph.op("Concat", graph.ints(-1, 1), vocab, axis=0)
    rows = graph.op("Gather", graph.op("Reshape", logits, shape), "inspected_rows", axis=0)  # [row, 1, vocab]
    shape = graph.op("Concat", graph.op("Shape", "inspected_rows"), graph.ints(1), axis=0)
    zeros = graph.op("Expand", graph.constant("zero", 0.0, np.float32), shape)
    outputs = ["row_scores", ids, "row_parents"]
    graph.call(best_continuations(), rows, zeros, "candidate_count", banned_ids, outputs=outputs)
    flat = graph.op("Squeeze", rows, graph.ints(1))
    # The parents are 0; the kernel wants all of its outputs used.
    names = (graph.op("Add", ids, "row_parents"), "row_scores")
    best, score = (graph.op("Slice", name, graph.ints(0), graph.ints(1), graph.ints(1)) for name in names)
    norms = graph.op("Sub", graph.op("GatherElements", flat, best, axis=1), score)
    required = graph.op("GatherElements", flat, "required_ids", axis=1)
    graph.op("Sub", required, norms, output="required_scores")
