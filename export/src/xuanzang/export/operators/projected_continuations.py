"""The end of a decoder step as one operator, from quantised states to the best continuations, and its parts."""

from __future__ import annotations

import numpy as np
import onnx

from xuanzang.export.builder import MICROSOFT, FunctionBuilder, GraphBuilder
from xuanzang.export.operators.continuations import best_continuations
from xuanzang.export.operators.products import chosen_logits

MATRIX = ("x", "weight", "x_scale", "weight_scale", "x_zero", "bias")
"""Factors of the projection: integers [batch, beam, in] and [in, vocab], scale of x, scales of the columns [vocab],
zero point of x, biases [vocab]."""
SHORTLIST = ("columns", "scales", "biases", "choices", "common_ids")
"""Inputs of a shortlist: columns of all pieces [vocab, in], their scales and biases [vocab], the ids of those of each
sentence [batch, choice], and of those of all sentences [common], onto which `MATRIX` projects."""
CHOICE = ("scores", "candidate_count", "banned_ids")
EDITS = ("edited_ids", "edit_penalties", "edit_biases")
INSPECTION = ("inspected_rows", "required_ids")
OUTPUTS = ["candidate_scores", "candidate_ids", "candidate_parents", "row_scores", "row_ids", "required_scores"]


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
    logits = edit_logits(graph, _projected(graph))
    choose(graph, logits, "banned_ids", ids="candidate_ids")
    inspect(graph, logits, "banned_ids", ids="row_ids")
    return graph.function([*MATRIX, *CHOICE, *EDITS, *INSPECTION], OUTPUTS)


def shortlisted_continuations() -> onnx.FunctionProto:
    """Return the same operator for sentences that choose among few pieces; calls ChosenLogits and BestContinuations.

    Inputs: those of `MATRIX` and of `SHORTLIST`; the others of `projected_continuations`, in which the places of pieces
    in `common_ids` and `choices`, one after the other, stand for ids.
    Outputs: those of `projected_continuations`, with ids of the vocabulary.
    """
    graph = FunctionBuilder("ShortlistedContinuations")
    x, columns, scales, biases, choices = MATRIX[0], *SHORTLIST[:4]
    graph.call(chosen_logits(), x, columns, scales, biases, choices, outputs=["own_logits"])
    logits = graph.op("Concat", _projected(graph), "own_logits", axis=-1)
    choose_listed(graph, logits, "banned_ids", "common_ids")
    return graph.function([*MATRIX, *SHORTLIST, *CHOICE, *EDITS, *INSPECTION], OUTPUTS)


def _projected(graph: GraphBuilder) -> str:
    integers, weight, x_scale, weight_scale, x_zero, bias = MATRIX
    return graph.op("MatMulIntegerToFloat", integers, weight, x_scale, weight_scale, x_zero, "", bias, domain=MICROSOFT)


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


def choose_listed(graph: GraphBuilder, logits: str, banned_ids: str, common_ids: str) -> None:
    """Edit logits [batch, beam, common + choice], choose and inspect; look up the chosen ids."""
    edited = edit_logits(graph, logits)
    choose(graph, edited, banned_ids, ids="chosen")
    inspect(graph, edited, banned_ids, ids="row_chosen")
    shape = (graph.op("Shape", "choices", start=0, end=1), graph.op("Shape", common_ids))
    common = graph.op("Expand", common_ids, graph.op("Concat", *shape, axis=0))
    ids = graph.op("Concat", common, "choices", axis=1)
    graph.op("GatherElements", ids, "chosen", axis=1, output="candidate_ids")
    sentences = graph.op("Div", "inspected_rows", graph.op("Shape", "scores", start=1, end=2))
    row_ids = graph.op("Gather", ids, sentences, axis=0)
    graph.op("GatherElements", row_ids, "row_chosen", axis=1, output="row_ids")


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
