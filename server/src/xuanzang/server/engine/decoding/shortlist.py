"""Inputs of the decoder graph that restrict choices: pieces of a shortlist, and pieces that phrases require."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from xuanzang.server.engine.arrays import Ints, Order
from xuanzang.server.engine.decoding.logit_edits import LogitEdits
from xuanzang.server.engine.decoding.phrase_search import Inspection, RequiredPhraseSearch
from xuanzang.server.engine.runtime.pages import Tensor
from xuanzang.server.engine.runtime.sessions import Sessions

# onnxruntime sums a vector in this many partial sums. With a multiple of it, filled up with pieces of probability 0,
# the order of the sum is the same for any width, so that scores do not depend on the neighbours, to the last bit.
_PARTIAL_SUMS = 64
# The operators of the graph take no tensors without elements.
_IDLE_ROWS = 1


class BatchShortlist:
    """Pieces of each sentence in addition to the shared ones.

    The arrays for the graph are made once after sentences have joined or left, however many did.
    """

    def __init__(self, common: Ints, *, vocab_size: int, min_pieces: int) -> None:
        """Start without sentences.

        All may choose the `common` pieces, in the order of the graph. As an id `vocab_size` stands for no piece, with
        which each sentence is filled up to `min_pieces`.
        """
        self._no_piece = vocab_size
        self._min_pieces = min_pieces
        self._common = common
        self._pieces: list[Ints] = []
        self._inputs: dict[str, Ints] = {}
        self._positions: Ints | None = None

    def join(self, indices: Ints, suggested: npt.NDArray[np.bool_], prefixes: Sequence[Sequence[int]]) -> None:
        """Take in sentences at batch indices, of sentences that have left or the next ones.

        Args:
            suggested: Pieces that the source of each suggests, [batch, vocab].
            prefixes: Forced beginning of the target of each, which it may choose as well.
        """
        self._pieces += [np.zeros(0, dtype=np.int64)] * (int(indices.max()) + 1 - len(self._pieces))
        for index, own, prefix in zip(indices.tolist(), suggested, prefixes, strict=True):
            if prefix:
                own[list(prefix)] = True
                own[self._common[self._common < self._no_piece]] = False
            self._pieces[index] = np.flatnonzero(own)
        self._inputs, self._positions = {}, None

    def select(self, order: Order) -> None:
        """Keep only some sentences, in the order given."""
        self._pieces = [self._pieces[index] for index in order.kept.tolist()]
        self._inputs, self._positions = {}, None

    def reorder(self, order: Sequence[int]) -> None:
        """Take note that sentences have changed places in the inputs, too: those of before, in the order of now."""
        self._pieces = [self._pieces[index] for index in order]
        self._positions = None

    def inputs(self) -> dict[str, Ints]:
        """Return the inputs of the graph by name; the same arrays until sentences join or leave."""
        if not self._inputs:
            # One more than there are pieces, so that each sentence has a position of no piece.
            widest = max(self._min_pieces - len(self._common), *(len(pieces) + 1 for pieces in self._pieces))
            choices = np.full((len(self._pieces), -(-widest // _PARTIAL_SUMS) * _PARTIAL_SUMS), self._no_piece)
            for chosen, pieces in zip(choices, self._pieces, strict=True):
                chosen[: len(pieces)] = pieces
            self._inputs = {"choices": choices}
        return self._inputs

    def translated(self, edits: LogitEdits) -> LogitEdits:
        """Translate edits of ids into edits of positions among the pieces of each sentence; of others into none."""
        known = self.positions()
        batch, beam, count = edits.edited_ids.shape
        positions = np.take_along_axis(known, edits.edited_ids.reshape(batch, -1), axis=1)
        positions = positions.reshape(batch, beam, count)
        absent = positions < 0
        return LogitEdits(
            np.where(absent, known[:, self._no_piece, None, None], positions),
            np.where(absent, np.float32(1), edits.edit_penalties),
            np.where(absent, np.float32(0), edits.edit_biases),
        )

    def positions(self) -> Ints:
        """Return the position of each piece in each sentence, or -1, and last one of no piece, [batch, vocab + 1]."""
        if self._positions is None:
            choices = self.inputs()["choices"]
            positions = np.full((len(choices), self._no_piece + 1), -1)
            positions[:, self._common] = np.arange(len(self._common))
            np.put_along_axis(positions, choices, len(self._common) + np.arange(choices.shape[1])[None], axis=1)
            self._positions = positions
        return self._positions


class InspectedRows:
    """Arrays for `RequiredPhraseSearch`: the same ones until sentences with phrases join or leave."""

    def __init__(self, sessions: Sessions, *, candidate_count: int) -> None:
        self._known, self._count = sessions.inspects_rows, candidate_count
        self._asked: object = None
        self._rows: Ints = np.zeros(0, np.int64)
        self._ids: Ints = np.zeros((0, 0), np.int64)
        self._inspection = Inspection(np.zeros((0, 0), np.float32), self._ids, np.zeros((0, 0), np.float32))

    def fit(self, search: RequiredPhraseSearch, shortlist: BatchShortlist | None) -> Inspection:
        """Make the arrays ready for a step; return the outputs, other arrays than before if they must be bound anew."""
        if self._asked is not search.required_ids:
            self._asked = search.required_ids
            self._rows, self._ids = search.rows, search.required_ids
            if not len(search):
                self._rows, self._ids = np.zeros(_IDLE_ROWS, np.int64), np.zeros((_IDLE_ROWS, 0), np.int64)
            elif shortlist:
                self._ids = self._ids.copy()
            shape = (len(self._rows), self._count)
            scores, ids = np.zeros(shape, np.float32), np.zeros(shape, np.int64)
            self._inspection = Inspection(scores, ids, np.zeros(self._ids.shape, np.float32))
        if shortlist and len(search):
            sentences = search.rows // search.beam_size
            self._ids[:] = shortlist.positions()[sentences[:, None], search.required_ids]
        return self._inspection

    @property
    def inputs(self) -> dict[str, Tensor]:
        """Inputs of the graph by name; none if it does not know them."""
        return {"inspected_rows": self._rows, "required_ids": self._ids} if self._known else {}

    @property
    def outputs(self) -> dict[str, Tensor]:
        """Outputs of the graph by name; none if it does not know them."""
        return dict(self._inspection._asdict()) if self._known else {}
