"""What goes between a decoder step and the search: candidates from the one, hypotheses to the other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xuanzang.server.engine.arrays import Floats, Ints, Order, extended

DEAD_SCORE = np.float32(-1.0e9)
"""Score of a beam position without hypothesis: below any sum of log-probabilities, and finite in the graph."""
DEAD_LIMIT = float(DEAD_SCORE) / 2
"""Scores below are of beam positions without hypothesis."""


class Candidates(NamedTuple):
    """The best continuations of each sentence, best first, [batch, candidate] each."""

    scores: Floats
    """Summed log-probabilities."""
    ids: Ints
    """Tokens that they add."""
    parents: Ints
    """Beam positions of the hypotheses that they continue."""

    def of(self, index: int) -> list[tuple[float, int, int]]:
        """Return score, token and parent of each of a sentence."""
        return list(zip(*(array[index].tolist() for array in self), strict=True))


class BeamArrays(NamedTuple):
    """The live hypotheses of all sentences, as the next decoder step takes them."""

    token_ids: Ints
    """Last token of each hypothesis, [batch, beam]."""
    scores: Floats
    """Summed log-probability of each hypothesis, [batch, beam]."""
    positions: Ints
    """Position of `token_ids`, which is the number of tokens generated, [batch, 1]."""
    parents: Ints
    """Beam position of each hypothesis before the last step, [batch, beam]."""

    @classmethod
    def empty(cls, beam_size: int) -> BeamArrays:
        """Return arrays of no sentences."""
        ids = np.zeros((0, beam_size), dtype=np.int64)
        return cls(ids, ids.astype(np.float32), np.zeros((0, 1), dtype=np.int64), ids.copy())

    def extended(self, more: int) -> BeamArrays:
        """Return arrays with room for more sentences."""
        return BeamArrays(
            extended(self.token_ids, more),
            extended(self.scores, more),
            extended(self.positions, more),
            extended(self.parents, more),
        )

    def selected(self, order: Order) -> BeamArrays:
        """Return the arrays of some sentences, in the memory of these."""
        return BeamArrays(
            order.apply(self.token_ids),
            order.apply(self.scores),
            order.apply(self.positions),
            order.apply(self.parents),
        )
