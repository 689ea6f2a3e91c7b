"""Comparison of the graphs with the model in numpy, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from xuanzang.export.certification.recording import Recording, record
from xuanzang.export.certification.runner import Candidates, OnnxModel
from xuanzang.export.certification.step_inputs import DEAD_SCORE, LiveHypotheses
from xuanzang.model.beams import Beam
from xuanzang.model.network.arrays import ArrayNetwork, Ids, pad
from xuanzang.model.network.config import TransformerConfig
from xuanzang.model.network.positions import FloatArray


class Parity(NamedTuple):
    """Differences between graphs and the model in numpy on the same sentences."""

    sentences: int
    """Sentences compared, each decoded to the end."""
    steps: int
    """Decoder steps compared."""
    max_abs_difference: float
    """Maximum difference of the log-probability that a candidate adds in one step, nats."""
    token_agreement: float
    """Share of sentences whose best hypothesis is the same, token for token."""


class Followed(NamedTuple):
    """Numpy's results along the path of the graphs."""

    parity: Parity
    target_ids: list[list[int]]
    """Numpy's own translations."""


def follow(
    network: ArrayNetwork, recordings: Sequence[Recording], *, beam_size: int, expected: Sequence[list[int]] = ()
) -> Followed:
    """Repeat in numpy what graphs did, in lockstep on the same hypotheses.

    As long as numpy's search keeps the same hypotheses, these steps are its search, too.

    Args:
        network: The model in numpy.
        recordings: What the graphs did, from `record`.
        beam_size: Hypotheses kept per sentence.
        expected: Translations of the same sentences by numpy; none to find them.
    """
    followers, target_ids = [], list(expected)
    for batch in recordings:
        follower = _Follower(network, batch, beam_size)
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
    network: ArrayNetwork,
    onnx_model: OnnxModel,
    sentences: Sequence[list[int]],
    *,
    beam_size: int,
    batch_sentences: int = 10,
) -> Parity:
    """Decode sentences with the graphs and let numpy follow.

    Args:
        network: The model in numpy.
        onnx_model: Open graphs.
        sentences: Source ids, eos last.
        beam_size: Hypotheses kept per sentence.
        batch_sentences: Sentences decoded together.
    """
    recordings = record(onnx_model, sentences, beam_size=beam_size, batch_sentences=batch_sentences)
    return follow(network, recordings, beam_size=beam_size).parity


class _Follower:
    """Repeats the steps of the graphs in numpy, keeps the maximum difference, and searches on its own account."""

    def __init__(self, network: ArrayNetwork, batch: Recording, beam_size: int) -> None:
        self._network, self._batch = network, batch
        self._search = _Search(network, batch, range(len(batch.sentences)), beam_size)
        self._cache = network.start(*pad(batch.sentences, network.config.pad_id), beam_size)
        self._apart: set[int] = set()  # sentences whose hypotheses numpy does not keep as the graphs do
        self.worst, self.steps = 0.0, 0

    def follow(self, live: LiveHypotheses, candidates: Candidates) -> None:
        """Compare the gain in log-probability of every candidate of one step."""
        if self.steps:
            self._cache = self._cache.select(live.parents)
            self._apart |= self._search.differing(live)
        gains, self._cache = self._network.step(live.token_ids, self._cache)
        sentence = np.arange(len(gains))[:, None]
        expected = gains[sentence, candidates.parents, candidates.ids]
        found = candidates.scores - live.scores[sentence, candidates.parents]
        alive = candidates.scores > DEAD_SCORE / 2
        self.worst = max(self.worst, float(np.abs(expected - found)[alive].max()))
        self._search.advance(gains)
        self.steps += 1

    def translations(self) -> list[list[int]]:
        """Return numpy's translations; sentences that went apart are searched again from their start."""
        beams = self._search.beams
        wanted = [i for i, beam in enumerate(beams) if i in self._apart or not beam.done]
        again = self._search_again(wanted) if wanted else {}
        own = [beam.hypotheses()[0].target_ids if i not in again else [] for i, beam in enumerate(beams)]
        return [again.get(i, target_ids) for i, target_ids in enumerate(own)]

    def _search_again(self, numbers: Sequence[int]) -> dict[int, list[int]]:
        config, beam_size = self._network.config, self._search.beam_size
        search = _Search(self._network, self._batch, numbers, beam_size)
        cache = self._network.start(*pad([self._batch.sentences[i] for i in numbers], config.pad_id), beam_size)
        token_ids: Ids = np.full((len(numbers), beam_size), config.bos_id)
        while not all(beam.done for beam in search.beams):
            log_probs, cache = self._network.step(token_ids, cache)
            search.advance(log_probs)
            token_ids = np.array([beam.last for beam in search.beams])
            cache = cache.select(np.array([beam.parents for beam in search.beams]))
        return {i: beam.hypotheses()[0].target_ids for i, beam in zip(numbers, search.beams, strict=True)}


class _Search:
    """Beam search over log-probabilities in numpy."""

    def __init__(self, network: ArrayNetwork, batch: Recording, numbers: Sequence[int], beam_size: int) -> None:
        """Begin to search for the translations of some sentences of a batch."""
        self.beam_size = beam_size
        self.beams = [Beam(beam_size, beam_size, batch.length_penalty, batch.limits[i], batch.rules) for i in numbers]
        self._config = network.config
        self._prefixes = [batch.prefixes[i] for i in numbers] if batch.prefixes else []
        self._steps = 0

    def differing(self, live: LiveHypotheses) -> set[int]:
        """Return the numbers of the running sentences whose hypotheses are not those given."""
        kept = zip(self.beams, live.token_ids.tolist(), live.parents.tolist(), strict=True)
        return {i for i, (beam, *others) in enumerate(kept) if not beam.done and [beam.last, beam.parents] != others}

    def advance(self, log_probs: FloatArray) -> None:
        """Give each sentence the best continuations of a step, [batch, beam, vocab]."""
        if self._prefixes and self._steps < len(self._prefixes[0]):
            forced = [prefix[self._steps] for prefix in self._prefixes]
            allowed = np.full_like(log_probs, -np.inf)
            allowed[range(len(forced)), :, forced] = 0.0
        else:
            allowed = log_probs
            allowed[..., list(self._config.banned_ids)] = -np.inf
        self._steps += 1
        for beam, gains in zip(self.beams, allowed, strict=True):
            if not beam.done:
                _advance(beam, gains, self._config)


def _advance(beam: Beam, gains: FloatArray, config: TransformerConfig) -> None:
    """Give a sentence its 2 · beam best continuations, of [beam, vocab]."""
    totals = (np.array(beam.scores, np.float32)[:, None] + gains).ravel()
    count = min(2 * len(gains), totals.size)
    best = np.argpartition(-totals, count - 1)[:count]
    best = best[np.argsort(-totals[best], kind="stable")]
    parents, ids = np.divmod(best, gains.shape[1])
    beam.advance(totals[best].tolist(), parents.tolist(), ids.tolist(), config.eos_id)
