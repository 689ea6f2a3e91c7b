"""Comparison of the graphs with the torch model, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from xuanzang.export.certification.recording import Recording, record
from xuanzang.export.certification.runner import Candidates, OnnxModel
from xuanzang.export.certification.step_inputs import DEAD_SCORE, LiveHypotheses
from xuanzang.model.data.dataset import pad_sentences
from xuanzang.model.network.transformer import Transformer
from xuanzang.model.search import Beam, advance, beam_search, restrict


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


class Followed(NamedTuple):
    """Torch's results along the path of the graphs."""

    parity: Parity
    target_ids: list[list[int]]
    """Torch's own translations."""


def follow(
    model: Transformer, recordings: Sequence[Recording], *, beam_size: int, expected: Sequence[list[int]] = ()
) -> Followed:
    """Repeat in torch what graphs did, in lockstep on the same hypotheses.

    As long as torch's search keeps the same hypotheses, these steps are its search, too.

    Args:
        model: Torch model, float32, in evaluation mode.
        recordings: What the graphs did, from `record`.
        beam_size: Hypotheses kept per sentence.
        expected: Translations of the same sentences by torch; none to find them.
    """
    followers, target_ids = [], list(expected)
    for batch in recordings:
        follower = _TorchFollower(model, batch, beam_size)
        for live, candidates in batch.steps:
            follower.follow(live, candidates)
        followers.append(follower)
        target_ids += [] if expected else follower.translations()
    found = [hypotheses[0].target_ids for batch in recordings for hypotheses in batch.found]
    agreed = sum(one == other for one, other in zip(found, target_ids, strict=True))
    parity = Parity(
        sentences=len(found),
        steps=sum(follower.steps for follower in followers),
        max_abs_difference=max(follower.worst for follower in followers),
        token_agreement=agreed / len(found),
    )
    return Followed(parity, target_ids)


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
    return follow(model, recordings, beam_size=beam_size).parity


class _TorchFollower:
    """Repeats the steps of the graphs in torch, keeps the maximum difference, and searches on its own account."""

    @torch.inference_mode()
    def __init__(self, model: Transformer, batch: Recording, beam_size: int) -> None:
        source_ids, mask = pad_sentences(batch.sentences, model.config.pad_id)
        memory = model.encode(source_ids, mask)
        self._model, self._batch, self._beam_size = model, batch, beam_size
        self._first_row = torch.arange(len(batch.sentences))[:, None] * beam_size
        self._cache = model.start(memory.repeat_interleave(beam_size, 0), mask.repeat_interleave(beam_size, 0))
        self._beams = [Beam(beam_size, beam_size, batch.length_penalty, limit, batch.rules) for limit in batch.limits]
        self._apart: set[int] = set()  # sentences whose hypotheses torch does not keep as the graphs do
        self.worst, self.steps = 0.0, 0

    @torch.inference_mode()
    def follow(self, live: LiveHypotheses, candidates: Candidates) -> None:
        """Compare the gain in log-probability of every candidate of one step."""
        batch, beam = live.token_ids.shape
        if self.steps:
            self._cache = self._cache.select((self._first_row + torch.from_numpy(live.parents)).flatten())
            self._apart |= {i for i in range(batch) if not self._keeps(i, live)}
        logits, self._cache = self._model.step(torch.from_numpy(live.token_ids).flatten(), self._cache)
        log_probs = logits.log_softmax(-1)
        gains = log_probs.view(batch, beam, -1).numpy()
        sentence = np.arange(batch)[:, None]
        expected = gains[sentence, candidates.parents, candidates.ids]
        found = candidates.scores - live.scores[sentence, candidates.parents]
        alive = candidates.scores > DEAD_SCORE / 2
        self.worst = max(self.worst, float(np.abs(expected - found)[alive].max()))
        self._search(log_probs)
        self.steps += 1

    def translations(self) -> list[list[int]]:
        """Return torch's translations; sentences that went apart are searched again from their start."""
        wanted = [i for i, beam in enumerate(self._beams) if i in self._apart or not beam.done]
        again = dict(zip(wanted, self._search_again(wanted), strict=True))
        own = [beam.hypotheses()[0].target_ids if i not in again else [] for i, beam in enumerate(self._beams)]
        return [again.get(i, target_ids) for i, target_ids in enumerate(own)]

    def _keeps(self, sentence: int, live: LiveHypotheses) -> bool:
        beam = self._beams[sentence]
        kept = (beam.last, beam.parents) == (live.token_ids[sentence].tolist(), live.parents[sentence].tolist())
        return beam.done or kept

    def _search(self, log_probs: Tensor) -> None:
        """Take a step of the search, which skips finished sentences."""
        prefixes = self._batch.prefixes
        forced = [prefix[self.steps] for prefix in prefixes] if prefixes and self.steps < len(prefixes[0]) else []
        log_probs = restrict(log_probs.view(len(self._beams), self._beam_size, -1), self._model.config, forced)
        advance(self._beams, log_probs, self._model.config.eos_id)

    def _search_again(self, numbers: Sequence[int]) -> list[list[int]]:
        if not numbers:
            return []
        batch = self._batch
        source_ids, mask = pad_sentences([batch.sentences[i] for i in numbers], self._model.config.pad_id)
        found = beam_search(
            self._model,
            source_ids,
            mask,
            beam_size=self._beam_size,
            length_penalty=batch.length_penalty,
            max_target_length=[batch.limits[i] for i in numbers],
            prefixes=[batch.prefixes[i] for i in numbers] if batch.prefixes else [],
            rules=batch.rules,
        )
        return [hypotheses[0].target_ids for hypotheses in found]
