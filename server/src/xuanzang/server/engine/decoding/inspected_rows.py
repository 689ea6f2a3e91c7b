"""Inputs and outputs of the decoder graph for the hypotheses of sentences that require phrases."""

from __future__ import annotations

import numpy as np

from xuanzang.server.engine.arrays import Ints
from xuanzang.server.engine.decoding.phrase_search import Inspection, RequiredPhraseSearch
from xuanzang.server.engine.decoding.shortlist import BatchShortlist
from xuanzang.server.engine.runtime.pages import Tensor
from xuanzang.server.engine.runtime.sessions import Sessions

# The operators of the graph take no tensors without elements.
_IDLE_ROWS = 1


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
