"""Beam search over the candidates of each decoder step: plain numpy, many sentences at once.

The rules are CTranslate2's. Of the 2 · beam best continuations of a sentence, those among the first `beam_size` that
end in eos are finished, and the best `beam_size` others live on. A sentence is done when `beam_size` hypotheses are
finished (without length penalty: when the best continuation of all is), or at its limit, where the first `beam_size`
count as they are. A hypothesis scores sum / length^α, eos counted in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
Bools = npt.NDArray[np.bool_]

DEAD_SCORE = np.float32(-1.0e9)
"""Score of a row without hypothesis: no sum of log-probabilities comes near it, and it stays finite in the graph."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """How one sentence is searched; every field resolved."""

    beam_size: int
    """Hypotheses kept; 1 is greedy search."""
    num_hypotheses: int
    """Hypotheses returned, at most beam_size."""
    length_penalty: float
    """Exponent α on the length; 0 for none."""
    min_target_length: int
    """Tokens before eos is allowed, eos not counted."""
    max_target_length: int
    """Most tokens, eos counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetHypothesis:
    """A finished translation of a sentence, as ids."""

    target_ids: list[int]
    """Without start and end token."""
    score: float
    """sum / length^α, nats."""
    token_count: int
    """Tokens generated, eos counted."""
    finished: bool
    """Ended in eos, rather than at the limit."""


class Candidates(NamedTuple):
    """The best continuations of each sentence, best first, [batch, 2 · beam] each."""

    scores: Floats
    """Summed log-probabilities."""
    ids: Ints
    """The token that each adds."""
    parents: Ints
    """The hypothesis that each continues."""


class BeamSearch:
    """The hypotheses of a batch of sentences, whose options may differ.

    `token_ids`, `scores` and `positions` are what the next decoder step is asked; `advance` takes its answer.
    """

    def __init__(self, options: Sequence[SearchOptions], *, start_id: int, eos_id: int) -> None:
        batch, beam = len(options), max(option.beam_size for option in options)
        self._eos_id = eos_id
        self._options = list(options)
        self._beam_sizes = np.array([option.beam_size for option in options])
        self._min_lengths = np.array([option.min_target_length for option in options])
        self._max_lengths = np.array([option.max_target_length for option in options])
        self._kept: list[list[TargetHypothesis]] = [[] for _ in options]
        self._top_finished = np.zeros(batch, dtype=bool)
        self._tokens = np.zeros((batch, beam, 0), dtype=np.int64)
        self.token_ids: Ints = np.full((batch, beam), start_id, dtype=np.int64)
        """Last token of each hypothesis, [batch, beam]."""
        self.scores: Floats = np.full((batch, beam), DEAD_SCORE, dtype=np.float32)
        """Summed log-probability of each hypothesis, [batch, beam]."""
        self.scores[:, 0] = 0.0  # all hypotheses are equal at first, so only one may have children
        self.parents: Ints = np.tile(np.arange(beam), (batch, 1))
        """Where each hypothesis stood before the last `advance`, [batch, beam]."""

    @property
    def positions(self) -> Ints:
        """Position of `token_ids`, [batch, 1]."""
        return np.full((len(self._options), 1), self._tokens.shape[2], dtype=np.int64)

    def advance(self, candidates: Candidates) -> list[tuple[int, list[TargetHypothesis]]]:
        """Choose the hypotheses that live on.

        Args:
            candidates: Answer of the decoder step.

        Returns:
            Rows of the sentences that are done, with up to num_hypotheses hypotheses each, best first. Their rows mean
            nothing from now on; take them out with `select`.
        """
        length = self._tokens.shape[2] + 1
        scores, ids, parents, valid = self._allowed(candidates, length)
        ends = ids == self._eos_id
        at_limit = length >= self._max_lengths
        first = np.arange(scores.shape[1]) < self._beam_sizes[:, None]
        closing = valid & first & (ends | at_limit[:, None])
        for row, rank in np.argwhere(closing).tolist():
            self._keep(row, int(parents[row, rank]), int(ids[row, rank]), float(scores[row, rank]))
        self._top_finished |= closing[:, 0]
        survivors = valid & ~ends
        done = at_limit | ~survivors.any(axis=1) | self._enough()
        self._survive(scores, ids, parents, survivors)
        return [(row, self._best(row)) for row in np.flatnonzero(done).tolist()]

    def select(self, rows: Ints) -> None:
        """Keep only some sentences, in the order given.

        Args:
            rows: [batch], int64.
        """
        for name in ("_beam_sizes", "_min_lengths", "_max_lengths", "_top_finished", "_tokens"):
            setattr(self, name, getattr(self, name)[rows])
        self.token_ids, self.scores, self.parents = self.token_ids[rows], self.scores[rows], self.parents[rows]
        self._options = [self._options[row] for row in rows]
        self._kept = [self._kept[row] for row in rows]

    def _allowed(self, candidates: Candidates, length: int) -> tuple[Floats, Ints, Ints, Bools]:
        """Move the candidates that may not be chosen to the end of each sentence's list and mark the others valid."""
        valid = candidates.scores > DEAD_SCORE / 2
        too_short = length <= self._min_lengths
        if too_short.any():
            valid &= ~(too_short[:, None] & (candidates.ids == self._eos_id))
        if valid.all():
            return *candidates, valid
        order = np.argsort(~valid, axis=1, kind="stable")
        return (
            np.take_along_axis(candidates.scores, order, axis=1),
            np.take_along_axis(candidates.ids, order, axis=1),
            np.take_along_axis(candidates.parents, order, axis=1),
            np.take_along_axis(valid, order, axis=1),
        )

    def _keep(self, row: int, parent: int, token: int, total: float) -> None:
        options, finished = self._options[row], token == self._eos_id
        tokens = self._tokens[row, parent].tolist()
        if not finished:
            tokens.append(token)
        count = len(tokens) + finished
        score = total / count**options.length_penalty
        self._kept[row].append(TargetHypothesis(target_ids=tokens, score=score, token_count=count, finished=finished))

    def _enough(self) -> Bools:
        return np.array(
            [
                len(kept) >= options.beam_size
                if options.length_penalty
                # Sums only sink, so the first to finish on top cannot be beaten.
                else bool(top) and len(kept) >= options.num_hypotheses
                for kept, options, top in zip(self._kept, self._options, self._top_finished, strict=True)
            ]
        )

    def _survive(self, scores: Floats, ids: Ints, parents: Ints, survivors: Bools) -> None:
        beam = self.token_ids.shape[1]
        order = np.argsort(~survivors, axis=1, kind="stable")[:, :beam]
        alive = np.take_along_axis(survivors, order, axis=1) & (np.arange(beam) < self._beam_sizes[:, None])
        self.token_ids = np.take_along_axis(ids, order, axis=1)
        self.scores = np.where(alive, np.take_along_axis(scores, order, axis=1), DEAD_SCORE)
        self.parents = np.take_along_axis(parents, order, axis=1)
        continued = np.take_along_axis(self._tokens, self.parents[:, :, None], axis=1)
        self._tokens = np.concatenate([continued, self.token_ids[:, :, None]], axis=2)

    def _best(self, row: int) -> list[TargetHypothesis]:
        ordered = sorted(self._kept[row], key=lambda hypothesis: -hypothesis.score)
        return ordered[: self._options[row].num_hypotheses]
