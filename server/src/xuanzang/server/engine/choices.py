"""The target pieces that the sentences of a batch may choose from, as the decoder graph with a shortlist takes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from xuanzang.server.engine.arrays import Array, Ints
from xuanzang.server.engine.constraints import Edits

# onnxruntime sums a row in so many lanes. A row that is filled up to a multiple of it with pieces of probability 0 is
# summed in the same order whatever its width, so that scores do not depend on the neighbours, to the last bit.
_LANES = 64


class Choices:
    """Pieces of each sentence, and of all together: the graph computes logits for these alone.

    They are arranged when sentences have come or gone, once for all that did.
    """

    def __init__(self, vocab_size: int, *, least: int, project: Callable[[Ints], dict[str, Array]]) -> None:
        """Start without sentences.

        Args:
            vocab_size: Target pieces that there are.
            least: What each sentence must have to choose from, filled up with what is never chosen.
            project: Gives what else the graph takes for some pieces.
        """
        self._nothing = vocab_size
        self._least = least
        self._project = project
        self._rows: list[Ints] = []
        self._places = np.zeros(0, dtype=np.int64)
        self._inputs: dict[str, Array] = {}

    def join(self, rows: Ints, suggested: npt.NDArray[np.bool_], prefixes: Sequence[Sequence[int]]) -> None:
        """Take in sentences.

        Args:
            rows: Of each: places that others have left, or the next ones.
            suggested: What the source of each suggests, [batch, vocab].
            prefixes: What the target of each must begin with, so that it may.
        """
        self._rows += [np.zeros(0, dtype=np.int64)] * (int(rows.max()) + 1 - len(self._rows))
        for row, allowed, prefix in zip(rows.tolist(), suggested, prefixes, strict=True):
            allowed[list(prefix)] = True
            self._rows[row] = np.flatnonzero(allowed)
        self._inputs = {}

    def select(self, order: Ints) -> None:
        """Keep only some sentences.

        Args:
            order: Rows, [batch].
        """
        self._rows = [self._rows[row] for row in order]
        self._inputs = {}

    def inputs(self) -> dict[str, Array]:
        """Return what the graph takes, by name; the same arrays until sentences come or go."""
        if not self._inputs:
            self._arrange()
        return self._inputs

    def placed(self, edits: Edits) -> Edits:
        """Return edits of places among the pieces that there are; those of other pieces become edits of nothing.

        Args:
            edits: Of ids; `inputs` has been called since sentences came or went.
        """
        places = self._places[edits.edited_ids]
        absent = places < 0
        return Edits(
            np.where(absent, self._places[self._nothing], places),
            np.where(absent, np.float32(1), edits.edit_penalties),
            np.where(absent, np.float32(0), edits.edit_biases),
        )

    def _arrange(self) -> None:
        used = np.zeros(self._nothing + 1, dtype=bool)
        used[self._nothing] = True
        for pieces in self._rows:
            used[pieces] = True
        piece_ids = np.flatnonzero(used)
        self._places = np.full(self._nothing + 1, -1, dtype=np.int64)
        self._places[piece_ids] = np.arange(len(piece_ids))
        widest = max(self._least, *map(len, self._rows))
        choices = np.full((len(self._rows), -(-widest // _LANES) * _LANES), len(piece_ids) - 1)
        for row, pieces in zip(choices, self._rows, strict=True):
            row[: len(pieces)] = self._places[pieces]
        self._inputs = {"piece_ids": piece_ids, "choices": choices, **self._project(piece_ids)}
