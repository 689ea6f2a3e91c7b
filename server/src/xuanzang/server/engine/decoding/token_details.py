"""Scores and attention of every token, kept for the sentences whose callers want them."""

from __future__ import annotations

import numpy as np

from xuanzang.server.engine.arrays import Floats, Ints, extended
from xuanzang.server.engine.decoding.hypotheses import Trace

_TOKENS_CHUNK = 32


class Traces:
    """For each hypothesis of a batch: the sum of scores after each token, what each attended to, and all attention."""

    def __init__(self, beam_size: int, *, sources: int) -> None:
        """Start without sentences.

        Args:
            beam_size: Hypotheses of each.
            sources: Most source positions of a sentence.
        """
        self._sums = np.zeros((0, beam_size, _TOKENS_CHUNK), dtype=np.float32)
        self._aligned = np.zeros((0, beam_size, _TOKENS_CHUNK), dtype=np.int32)
        self._coverage = np.zeros((0, beam_size, sources), dtype=np.float32)
        # Of the step that is being taken, by the hypotheses that stood before it.
        self._now = np.zeros((0, beam_size), dtype=np.int64)

    def join(self, rows: Ints) -> None:
        """Begin with sentences, at places that others have left or the next ones."""
        more = int(rows.max()) + 1 - len(self._sums)
        for name in ("_sums", "_aligned", "_coverage"):
            setattr(self, name, extended(getattr(self, name), more))
        self._coverage[rows] = 0.0

    def select(self, order: Ints) -> None:
        """Keep some sentences, in the order given."""
        for name in ("_sums", "_aligned", "_coverage"):
            setattr(self, name, getattr(self, name)[order])

    def see(self, attention: Floats) -> None:
        """Take what the tokens that are being chosen attend to, [batch, beam, source]; 0 after a sentence's end."""
        self._now = attention.argmax(axis=2)
        sources = self._coverage.shape[2]
        self._coverage[:, :, : attention.shape[2]] += attention[:, :, :sources]

    def inherit(self, parents: Ints, sums: Floats, places: Ints) -> None:
        """Give every hypothesis what its parent had, and its own.

        Args:
            parents: [batch, beam].
            sums: Summed log-probabilities, [batch, beam].
            places: Where the token of each sentence stands, [batch].
        """
        rows = np.arange(len(parents))
        if places.max(initial=0) >= self._sums.shape[2]:
            self._sums = extended(self._sums, _TOKENS_CHUNK, axis=2)
            self._aligned = extended(self._aligned, _TOKENS_CHUNK, axis=2)
        for name in ("_sums", "_aligned", "_coverage"):
            setattr(self, name, getattr(self, name)[rows[:, None], parents])
        self._sums[rows, :, places] = sums
        self._aligned[rows, :, places] = self._now[rows[:, None], parents]

    def trace(self, row: int, parent: int, total: float, count: int) -> Trace:
        """Return the trace of a hypothesis whose last token is being chosen, before `inherit`.

        Args:
            row: Of the sentence.
            parent: Hypothesis that it continues.
            total: Sum of its scores.
            count: Its tokens, the last one included.
        """
        sums = [*self._sums[row, parent, : count - 1].tolist(), total]
        aligned = [*self._aligned[row, parent, : count - 1].tolist(), int(self._now[row, parent])]
        return self._make(sums, aligned, self._coverage[row, parent])

    def living_trace(self, row: int, place: int, count: int) -> Trace:
        """Return the trace of a hypothesis of `count` tokens, after `inherit`."""
        sums, aligned = self._sums[row, place, :count].tolist(), self._aligned[row, place, :count].tolist()
        return self._make(sums, aligned, self._coverage[row, place])

    @staticmethod
    def _make(sums: list[float], aligned: list[int], coverage: Floats) -> Trace:
        scores = np.diff(sums, prepend=0.0).tolist()
        covered = coverage[coverage > 0]
        return Trace(scores, aligned, float(np.log(np.minimum(covered, 1.0)).sum()))
