"""Comparison of the graphs with the torch model, step by step."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import onnxruntime
import torch

from xuanzang.export.certification.runner import (
    DEAD_SCORE,
    Candidates,
    LiveHypotheses,
    OnnxModel,
    pages_for,
    step_inputs,
    translate_batch,
)
from xuanzang.export.tensors import PAGE_SLOTS
from xuanzang.model.data.dataset import pad_sentences
from xuanzang.model.network.transformer import Transformer
from xuanzang.model.search import Hypothesis, beam_search


class Parity(NamedTuple):
    """Differences between graphs and torch model on the same sentences."""

    sentences: int
    """Sentences compared, each decoded to the end."""
    steps: int
    """Decoder steps compared."""
    max_abs_difference: float
    """Maximum difference of the log-probability that a candidate adds in one step, nats."""
    token_agreement: float
    """Share of sentences whose best hypothesis is the same, token for token."""


class Recording(NamedTuple):
    """A batch as the graphs decoded it."""

    sentences: list[list[int]]
    prefixes: list[list[int]]
    limits: list[int]
    steps: list[tuple[LiveHypotheses, Candidates]]
    found: list[list[Hypothesis]]


def record(
    onnx_model: OnnxModel,
    sentences: Sequence[list[int]],
    *,
    beam_size: int,
    prefixes: Sequence[list[int]] = (),
    batch_sentences: int = 10,
) -> list[Recording]:
    """Decode sentences with the graphs and keep every step, so that torch can follow when the graphs are closed.

    Args:
        onnx_model: Open graphs.
        sentences: Source ids, eos last.
        beam_size: Hypotheses kept per sentence.
        prefixes: Beginning of the hypotheses of each sentence, or none.
        batch_sentences: Sentences decoded together.
    """
    starts = range(0, len(sentences), batch_sentences)
    parts = [slice(start, start + batch_sentences) for start in starts]
    return [_record(onnx_model, list(sentences[part]), list(prefixes[part]), beam_size) for part in parts]


def _record(onnx_model: OnnxModel, sentences: list[list[int]], prefixes: list[list[int]], beam_size: int) -> Recording:
    steps: list[tuple[LiveHypotheses, Candidates]] = []
    limits = target_limits(sentences, onnx_model.config.max_positions, prefixes)
    found = translate_batch(
        onnx_model,
        sentences,
        beam_size=beam_size,
        length_penalty=1.0,
        max_target_length=limits,
        prefixes=prefixes,
        on_step=lambda live, candidates: steps.append((live, candidates)),
    )
    return Recording(sentences, prefixes, limits, steps, found)


def search(model: Transformer, recordings: Sequence[Recording], *, beam_size: int) -> list[list[int]]:
    """Translate the sentences of recordings in torch, which takes as long as `follow`.

    Args:
        model: Torch model, float32, in evaluation mode.
        recordings: What graphs of any precision did, from `record`.
        beam_size: Hypotheses kept per sentence.

    Returns:
        Target ids of the best hypothesis of each sentence.
    """
    best = []
    for batch in recordings:
        source_ids, mask = pad_sentences(batch.sentences, model.config.pad_id)
        found = beam_search(
            model, source_ids, mask, beam_size=beam_size, max_target_length=batch.limits, prefixes=batch.prefixes
        )
        best += [hypotheses[0].target_ids for hypotheses in found]
    return best


def follow(
    model: Transformer, recordings: Sequence[Recording], expected: Sequence[list[int]], *, beam_size: int
) -> Parity:
    """Repeat in torch what graphs did, in lockstep on the same hypotheses.

    Args:
        model: Torch model, float32, in evaluation mode.
        recordings: What the graphs did, from `record`.
        expected: Translations of the same sentences by torch, from `search`.
        beam_size: Hypotheses kept per sentence.
    """
    followers = []
    for batch in recordings:
        follower = _TorchFollower(model, batch.sentences, beam_size)
        for live, candidates in batch.steps:
            follower.follow(live, candidates)
        followers.append(follower)
    found = [hypotheses[0].target_ids for batch in recordings for hypotheses in batch.found]
    agreed = sum(one == other for one, other in zip(found, expected, strict=True))
    return Parity(
        sentences=len(found),
        steps=sum(follower.steps for follower in followers),
        max_abs_difference=max(follower.worst for follower in followers),
        token_agreement=agreed / len(found),
    )


def compare(
    model: Transformer,
    onnx_model: OnnxModel,
    sentences: Sequence[list[int]],
    *,
    beam_size: int,
    batch_sentences: int = 10,
) -> Parity:
    """Decode sentences with the graphs and let torch follow.

    Args:
        model: Torch model, float32, in evaluation mode.
        onnx_model: Open graphs.
        sentences: Source ids, eos last.
        beam_size: Hypotheses kept per sentence.
        batch_sentences: Sentences decoded together.
    """
    recordings = record(onnx_model, sentences, beam_size=beam_size, batch_sentences=batch_sentences)
    return follow(model, recordings, search(model, recordings, beam_size=beam_size), beam_size=beam_size)


def target_limits(
    sentences: Sequence[Sequence[int]], max_positions: int, prefixes: Sequence[Sequence[int]] = ()
) -> list[int]:
    """Return the maximum target length of each sentence: twice its source plus 20, within the table of positions.

    A prefix makes room for itself.
    """
    begun = len(prefixes[0]) if prefixes else 0
    return [min(2 * len(ids) + 20 + begun, max_positions - 1) for ids in sentences]


def step_milliseconds(
    onnx_model: OnnxModel, position: int, *, batch: int = 8, beam_size: int = 4, runs: int = 15
) -> float:
    """Return the median time of one decoder step with a history of `position` tokens per hypothesis."""
    config = onnx_model.config
    memory = onnx_model.encode([[config.unk_id] * 24 + [config.eos_id]] * batch)
    # Slots of one translation of that length, and some of the tokens that the other hypotheses do not share.
    pages = pages_for(position + 4 * beam_size)
    shape = (batch, beam_size)
    live = LiveHypotheses(np.full(shape, config.bos_id), np.zeros(shape, np.float32), np.zeros(shape, np.int64))
    visible = np.ones((*shape, pages * PAGE_SLOTS), dtype=bool)
    inputs = step_inputs(config, live, position, np.tile(np.arange(beam_size), (batch, 1)), visible)
    feed = memory | onnx_model.empty_pages(batch * pages)
    feed |= {name: onnxruntime.OrtValue.ortvalue_from_numpy(value) for name, value in inputs.items()}
    times = []
    for _ in range(runs):
        started = time.perf_counter()
        onnx_model.step(feed)
        times.append(time.perf_counter() - started)
    return 1000 * statistics.median(times)


class _TorchFollower:
    """Repeats the steps of the graphs in torch and keeps the maximum difference."""

    @torch.inference_mode()
    def __init__(self, model: Transformer, sentences: Sequence[Sequence[int]], beam_size: int) -> None:
        source_ids, mask = pad_sentences(sentences, model.config.pad_id)
        memory = model.encode(source_ids, mask)
        self._model, self._first_row = model, torch.arange(len(sentences))[:, None] * beam_size
        self._cache = model.start(memory.repeat_interleave(beam_size, 0), mask.repeat_interleave(beam_size, 0))
        self.worst, self.steps = 0.0, 0

    @torch.inference_mode()
    def follow(self, live: LiveHypotheses, candidates: Candidates) -> None:
        """Compare the gain in log-probability of every candidate of one step."""
        batch, beam = live.token_ids.shape
        if self.steps:
            self._cache = self._cache.select((self._first_row + torch.from_numpy(live.parents)).flatten())
        logits, self._cache = self._model.step(torch.from_numpy(live.token_ids).flatten(), self._cache)
        gains = logits.log_softmax(-1).view(batch, beam, -1).numpy()
        sentence = np.arange(batch)[:, None]
        expected = gains[sentence, candidates.parents, candidates.ids]
        found = candidates.scores - live.scores[sentence, candidates.parents]
        alive = candidates.scores > DEAD_SCORE / 2
        self.worst = max(self.worst, float(np.abs(expected - found)[alive].max()))
        self.steps += 1
