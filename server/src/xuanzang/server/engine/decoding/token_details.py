"""Scores and attention of every token, recorded for the sentences whose callers ask for details."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xuanzang.server.engine.arrays import Floats, Ints, Order, extended
from xuanzang.server.engine.decoding.hypotheses import TokenDetails

_TOKENS_CHUNK = 32


class _Records(NamedTuple):
    """Record of each hypothesis."""

    totals: Floats
    """Summed log-probability after each token, [batch, beam, token]."""
    alignment: npt.NDArray[np.int32]
    """Source position with the greatest attention of each token, [batch, beam, token]."""
    coverage: Floats
    """Attention that each source position got so far, [batch, beam, source]."""

    def extended(self, more: int) -> _Records:
        """Return records with room for more sentences."""
        return _Records._make(extended(array, more) for array in self)

    def at(self, *indices: Ints) -> _Records:
        """Return the records of some sentences or hypotheses."""
        return _Records._make(array[indices] for array in self)


class TokenDetailRecorder:
    """Records, for each hypothesis of a batch, the score of every token and the attention to the source."""

    def __init__(self, beam_size: int, *, max_source_length: int) -> None:
        self._records = _Records(
            totals=np.zeros((0, beam_size, _TOKENS_CHUNK), dtype=np.float32),
            alignment=np.zeros((0, beam_size, _TOKENS_CHUNK), dtype=np.int32),
            coverage=np.zeros((0, beam_size, max_source_length), dtype=np.float32),
        )
        # Alignment of the tokens that this step chooses from, by beam position before the step, [batch, beam].
        self._aligned = np.zeros((0, beam_size), dtype=np.int64)

    def join(self, indices: Ints) -> None:
        """Begin with sentences at some batch indices, free ones or the next."""
        self._records = self._records.extended(int(indices.max()) + 1 - len(self._records.totals))
        self._records.coverage[indices] = 0.0

    def select(self, order: Order) -> None:
        """Keep some sentences, in the order given."""
        self._records = self._records.at(order.kept)

    def observe(self, attention: Floats) -> None:
        """Record the attention of this step, [batch, beam, source]; 0 after the end of a sentence."""
        self._aligned = attention.argmax(axis=2)
        coverage = self._records.coverage
        coverage[:, :, : attention.shape[2]] += attention[:, :, : coverage.shape[2]]

    def advance(self, parents: Ints, totals: Floats, token_positions: Ints) -> None:
        """Give every hypothesis the records of its parent, and its own token.

        `parents` and `totals` are [batch, beam], the position of the new token of each sentence is [batch].
        """
        indices = np.arange(len(parents))
        if token_positions.max(initial=0) >= self._records.totals.shape[2]:
            self._records = self._records._replace(
                totals=extended(self._records.totals, _TOKENS_CHUNK, axis=2),
                alignment=extended(self._records.alignment, _TOKENS_CHUNK, axis=2),
            )
        self._records = self._records.at(indices[:, None], parents)
        self._records.totals[indices, :, token_positions] = totals
        self._records.alignment[indices, :, token_positions] = self._aligned[indices[:, None], parents]

    def of_ending(self, index: int, parent: int, total: float, count: int) -> TokenDetails:
        """Return the details of a hypothesis whose last token is chosen in this step, before `advance`."""
        totals, alignment = self._recorded(index, parent, count - 1)
        last = int(self._aligned[index, parent])
        return self._details([*totals, total], [*alignment, last], self._records.coverage[index, parent])

    def of_live(self, index: int, beam_position: int, count: int) -> TokenDetails:
        """Return the details of a live hypothesis of `count` tokens, after `advance`."""
        totals, alignment = self._recorded(index, beam_position, count)
        return self._details(totals, alignment, self._records.coverage[index, beam_position])

    def _recorded(self, index: int, beam_position: int, count: int) -> tuple[list[float], list[int]]:
        totals = self._records.totals[index, beam_position, :count].tolist()
        return totals, self._records.alignment[index, beam_position, :count].tolist()

    @staticmethod
    def _details(totals: list[float], alignment: list[int], coverage: Floats) -> TokenDetails:
        scores = np.diff(totals, prepend=0.0).tolist()
        covered = coverage[coverage > 0]
        coverage_loss = float(np.log(np.minimum(covered, 1.0)).sum())
        return TokenDetails(scores, alignment, coverage_loss, coverage.tolist())
