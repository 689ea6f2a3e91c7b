"""The tokens of the hypotheses of a batch, kept as what each step added and where each hypothesis stood before."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xuanzang.server.engine.arrays import Ints, extended

# Room grows by this many steps.
_STEPS_CHUNK = 32

_Steps = list[list[list[int]]]
"""Tokens and parents of the hypotheses of a sentence, [step, 2, beam]."""


class History:
    """Nothing is moved when hypotheses change places: the tokens of one are found by going back from its last."""

    def __init__(self, beam_size: int) -> None:
        """Start without sentences."""
        # Token and parent of each hypothesis, [batch, step, 2, beam]; sentences of any age share the steps.
        self._links = np.zeros((0, _STEPS_CHUNK, 2, beam_size), dtype=np.int32)
        self._steps = 0

    def extend(self, more: int) -> None:
        """Take in sentences after the last one."""
        self._links = extended(self._links, more)

    def select(self, order: Ints) -> None:
        """Keep some sentences, in the order given."""
        self._links = self._links[order]

    def add(self, token_ids: Ints, parents: Ints, positions: Ints) -> None:
        """Note a step.

        Args:
            token_ids: That it gave each hypothesis, [batch, beam].
            parents: Where each stood before, [batch, beam].
            positions: Tokens of each sentence so far, these included, [batch, 1].
        """
        if self._steps == self._links.shape[1]:
            self._make_room(int(positions.max()) - 1)
        self._links[:, self._steps, 0] = token_ids
        self._links[:, self._steps, 1] = parents
        self._steps += 1

    def _make_room(self, needed: int) -> None:
        """Forget the steps before the oldest sentence began, and add empty ones."""
        self._links = extended(self._links[:, self._steps - needed :], _STEPS_CHUNK, axis=1)
        self._steps = needed

    def tokens(self, row: int, hypothesis: int, count: int, *, ago: int = 0) -> list[int]:
        """Return the last tokens of a hypothesis.

        Args:
            row: Of the sentence.
            hypothesis: Where it stands, or stood.
            count: Tokens.
            ago: Steps since it stood there.
        """
        return self._walk(self._last(row, count, ago), hypothesis)

    def shared(self, row: int, hypotheses: Sequence[int], count: int) -> list[int]:
        """Return the tokens that different hypotheses of a sentence begin with.

        Args:
            row: Of the sentence.
            hypotheses: Where they stand, at least one.
            count: Tokens of each.
        """
        steps = self._last(row, count, 0)
        places = set(hypotheses)
        while len(places) > 1 and steps:
            _, parents = steps.pop()
            places = {parents[place] for place in places}
        return self._walk(steps, places.pop())

    def _last(self, row: int, count: int, ago: int) -> _Steps:
        end = self._steps - ago
        steps: _Steps = self._links[row, end - count : end].tolist()
        return steps

    @staticmethod
    def _walk(steps: _Steps, hypothesis: int) -> list[int]:
        """Go back from a hypothesis to the first of some steps; return its tokens."""
        tokens = []
        for ids, parents in reversed(steps):
            tokens.append(ids[hypothesis])
            hypothesis = parents[hypothesis]
        return tokens[::-1]
