"""Recordings of graphs, step by step, for numpy to follow when the graphs are closed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xuanzang.export.certification.runner import Candidates, OnnxModel, translate_batch
from xuanzang.export.certification.step_inputs import LiveHypotheses
from xuanzang.model.beams import UNTIL_FIRST, Hypothesis, SearchRules


class Recording(NamedTuple):
    """A batch as the graphs decoded it."""

    sentences: list[list[int]]
    prefixes: list[list[int]]
    limits: list[int]
    length_penalty: float
    rules: SearchRules
    steps: list[tuple[LiveHypotheses, Candidates]]
    found: list[list[Hypothesis]]


def record(
    onnx_model: OnnxModel,
    sentences: Sequence[list[int]],
    *,
    beam_size: int,
    length_penalty: float = 1.0,
    rules: SearchRules = UNTIL_FIRST,
    prefixes: Sequence[list[int]] = (),
    batch_sentences: int = 10,
) -> list[Recording]:
    """Decode sentences with the graphs and keep every step, so that numpy can follow when the graphs are closed.

    Args:
        onnx_model: Open graphs.
        sentences: Source ids, eos last.
        beam_size: Hypotheses kept per sentence.
        length_penalty: α of score = sum / length^α.
        rules: When searches end.
        prefixes: Beginning of the hypotheses of each sentence, or none.
        batch_sentences: Sentences decoded together.
    """
    starts = range(0, len(sentences), batch_sentences)
    parts = [slice(start, start + batch_sentences) for start in starts]
    return [
        _record(onnx_model, list(sentences[part]), list(prefixes[part]), beam_size, length_penalty, rules)
        for part in parts
    ]


def _record(
    onnx_model: OnnxModel,
    sentences: list[list[int]],
    prefixes: list[list[int]],
    beam_size: int,
    length_penalty: float,
    rules: SearchRules,
) -> Recording:
    steps: list[tuple[LiveHypotheses, Candidates]] = []
    limits = target_limits(sentences, onnx_model.config.max_positions, prefixes)
    found = translate_batch(
        onnx_model,
        sentences,
        beam_size=beam_size,
        length_penalty=length_penalty,
        max_target_length=limits,
        prefixes=prefixes,
        rules=rules,
        on_step=lambda live, candidates: steps.append((live, candidates)),
    )
    return Recording(sentences, prefixes, limits, length_penalty, rules, steps, found)


def target_limits(
    sentences: Sequence[Sequence[int]], max_positions: int, prefixes: Sequence[Sequence[int]] = ()
) -> list[int]:
    """Return the maximum target length of each sentence: twice its source plus 20, within the table of positions.

    A prefix makes room for itself.
    """
    begun = len(prefixes[0]) if prefixes else 0
    return [min(2 * len(ids) + 20 + begun, max_positions - 1) for ids in sentences]
