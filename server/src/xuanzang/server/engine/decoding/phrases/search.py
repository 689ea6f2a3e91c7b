"""What a running batch knows of its sentences with required phrases; sentences without cost nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xuanzang.server.engine.arrays import Floats, Ints, Order
from xuanzang.server.engine.decoding.phrases.automaton import PhraseAutomaton
from xuanzang.server.engine.decoding.phrases.choice import Choice, Inspection, PhraseChoice


class RequiredPhraseSearch:
    """The sentences of a batch that require phrases."""

    def __init__(self, beam_size: int, eos_id: int) -> None:
        self.beam_size, self._choice = beam_size, PhraseChoice(beam_size, eos_id)
        self.indices: Ints = np.zeros(0, np.int64)
        """Batch indices of the sentences that require phrases."""
        self.rows: Ints = np.zeros(0, np.int64)
        """Rows of the decoder to inspect."""
        self._places: dict[int, int] = {}

    def __len__(self) -> int:
        """Return the number of sentences."""
        return len(self.indices)

    @property
    def required_ids(self) -> Ints:
        """Ids of each row whose log-probabilities are needed; the same array until sentences join or leave."""
        return self._choice.required_ids

    def join(self, indices: Ints, automata: Sequence[PhraseAutomaton | None]) -> None:
        """Begin with sentences at batch indices that are free or the next; None for those without phrases."""
        new = {index: one for index, one in zip(indices.tolist(), automata, strict=True) if one is not None}
        replaced = self._places.keys() & set(indices.tolist())
        if new or replaced:
            kept = [index for index in self._places if index not in replaced]
            self._rebuild([self._places[index] for index in kept], [*kept, *new], list(new.values()))

    def select(self, order: Order) -> None:
        """Keep the sentences at some batch indices, in the order given."""
        if not len(self):
            return
        indices = enumerate(order.kept.tolist())
        kept = [(self._places[index], place) for place, index in indices if index in self._places]
        self._rebuild([number for number, _ in kept], [place for _, place in kept], [])

    def _rebuild(self, kept: Sequence[int], places: Sequence[int], new: Sequence[PhraseAutomaton]) -> None:
        self._choice.rebuild(kept, new)
        self._places = {place: number for number, place in enumerate(places)}
        self.indices = np.array(places, np.int64)
        self.rows = (self.indices[:, None] * self.beam_size + np.arange(self.beam_size)).ravel()

    def choose(self, scores: Floats, inspection: Inspection, steps_left: Ints) -> Choice:
        """Choose the hypotheses that live on; see `PhraseChoice.choose`."""
        return self._choice.choose(scores, inspection, steps_left)
