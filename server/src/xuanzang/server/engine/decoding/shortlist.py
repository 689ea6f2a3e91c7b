"""The target pieces that the sentences of a batch may choose from, as the decoder graph with a shortlist takes them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from xuanzang.server.engine.arrays import Ints
from xuanzang.server.engine.decoding.logit_edits import Edits

# onnxruntime sums a row in so many lanes. A row that is filled up to a multiple of it with pieces of probability 0 is
# summed in the same order whatever its width, so that scores do not depend on the neighbours, to the last bit.
_LANES = 64


class Choices:
    """Pieces of each sentence besides those that every sentence may choose.

    They are arranged when sentences have come or gone, once for all that did.
    """

    def __init__(self, always: Ints, *, vocab_size: int, least: int) -> None:
        """Start without sentences.

        Args:
            always: Pieces that every sentence may choose, as the graph has them.
            vocab_size: Target pieces that there are; this number stands for no piece.
            least: What each sentence must have to choose from, filled up with what is never chosen.
        """
        self._nothing = vocab_size
        self._least = least
        self._always = always
        self._rows: list[Ints] = []
        self._inputs: dict[str, Ints] = {}
        self._places: Ints | None = None

    def join(self, rows: Ints, suggested: npt.NDArray[np.bool_], prefixes: Sequence[Sequence[int]]) -> None:
        """Take in sentences.

        Args:
            rows: Of each: places that others have left, or the next ones.
            suggested: What the source of each suggests, [batch, vocab].
            prefixes: What the target of each must begin with, so that it may.
        """
        common = self._always[self._always < self._nothing]
        self._rows += [np.zeros(0, dtype=np.int64)] * (int(rows.max()) + 1 - len(self._rows))
        for row, own, prefix in zip(rows.tolist(), suggested, prefixes, strict=True):
            own[list(prefix)] = True
            own[common] = False
            self._rows[row] = np.flatnonzero(own)
        self._inputs, self._places = {}, None

    def select(self, order: Ints) -> None:
        """Keep only some sentences.

        Args:
            order: Rows, [batch].
        """
        self._rows = [self._rows[row] for row in order]
        self._inputs, self._places = {}, None

    def inputs(self) -> dict[str, Ints]:
        """Return what the graph takes, by name; the same arrays until sentences come or go."""
        if not self._inputs:
            # One place more than there are pieces, so that each sentence has one of no piece.
            widest = max(self._least - len(self._always), *(len(pieces) + 1 for pieces in self._rows))
            choices = np.full((len(self._rows), -(-widest // _LANES) * _LANES), self._nothing)
            for row, pieces in zip(choices, self._rows, strict=True):
                row[: len(pieces)] = pieces
            self._inputs = {"choices": choices}
        return self._inputs

    def placed(self, edits: Edits) -> Edits:
        """Return edits of places among the pieces of each sentence; those of other pieces become edits of nothing.

        Args:
            edits: Of ids.
        """
        if self._places is None:
            self._places = self._find_places()
        batch, beam, count = edits.edited_ids.shape
        places = np.take_along_axis(self._places, edits.edited_ids.reshape(batch, -1), axis=1)
        places = places.reshape(batch, beam, count)
        absent = places < 0
        return Edits(
            np.where(absent, self._places[:, self._nothing, None, None], places),
            np.where(absent, np.float32(1), edits.edit_penalties),
            np.where(absent, np.float32(0), edits.edit_biases),
        )

    def _find_places(self) -> Ints:
        """Return where each sentence has each piece, or -1, and last of all a place of no piece, [batch, vocab + 1]."""
        choices = self.inputs()["choices"]
        places = np.full((len(choices), self._nothing + 1), -1)
        places[:, self._always] = np.arange(len(self._always))
        np.put_along_axis(places, choices, len(self._always) + np.arange(choices.shape[1])[None], axis=1)
        return places
