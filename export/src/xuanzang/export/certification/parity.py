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
from xuanzang.model.search import beam_search
from xuanzang.model.transformer import Transformer


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


def compare(
    model: Transformer,
    onnx_model: OnnxModel,
    sentences: Sequence[Sequence[int]],
    *,
    beam_size: int,
    prefix_ids: Sequence[int] = (),
    batch_sentences: int = 10,
) -> Parity:
    """Decode sentences with the graphs and, in lockstep on the same hypotheses, with torch.

    Args:
        model: Torch model, float32, in evaluation mode.
        onnx_model: Open graphs.
        sentences: Source ids, eos last.
        beam_size: Hypotheses kept per sentence.
        prefix_ids: Beginning of every hypothesis.
        batch_sentences: Sentences decoded together.
    """
    followers, agreed = [], 0
    for start in range(0, len(sentences), batch_sentences):
        batch = sentences[start : start + batch_sentences]
        follower = _TorchFollower(model, batch, beam_size)
        limit = target_limit(batch, model.config.max_positions)
        found = translate_batch(
            onnx_model,
            batch,
            beam_size=beam_size,
            length_penalty=1.0,
            max_target_length=limit,
            prefix_ids=prefix_ids,
            on_step=follower.follow,
        )
        source_ids, mask = pad_sentences(batch, model.config.pad_id)
        expected = beam_search(
            model, source_ids, mask, beam_size=beam_size, max_target_length=limit, prefix_ids=prefix_ids
        )
        agreed += sum(a[0].target_ids == b[0].target_ids for a, b in zip(found, expected, strict=True))
        followers.append(follower)
    return Parity(
        sentences=len(sentences),
        steps=sum(follower.steps for follower in followers),
        max_abs_difference=max(follower.worst for follower in followers),
        token_agreement=agreed / len(sentences),
    )


def target_limit(sentences: Sequence[Sequence[int]], max_positions: int) -> int:
    """Return the maximum target length of a batch: twice its longest source plus 20, within the table of positions."""
    return min(2 * max(map(len, sentences)) + 20, max_positions - 1)


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
    inputs = step_inputs(config, live, position, np.arange(beam_size), visible)
    feed = memory | onnx_model.empty_pages(batch, pages)
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
