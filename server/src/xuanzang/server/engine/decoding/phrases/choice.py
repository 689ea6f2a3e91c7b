"""Search for translations that hold required phrases: beam search with a bank of hypotheses for each number of them.

A hypothesis is in bank n if it has n of its required phrases, the one that it is within counted. Its continuations are
the best of the model and, whatever their probability, the next tokens of the phrases that it lacks; all have the
model's own log-probabilities. Each bank keeps its best: with one beam for all, hypotheses that have paid for a phrase
would lose to those that have not. Only hypotheses with all phrases may end.

Source: grid beam search, Hokamp and Liu 2017, arXiv:1704.07138; dynamic beam allocation, Post and Vilar 2018,
arXiv:1804.06609. Unlike theirs, a bank stands for phrases and not for their tokens, of which a beam of 4 cannot keep
one of each. Hypotheses within a phrase are compared with others by what the rest of the phrase is expected to cost, as
last seen in the sentence; so they neither displace those that have paid for it nor are displaced by later beginnings.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xuanzang.server.engine.arrays import Floats, Ints, Order
from xuanzang.server.engine.decoding.phrases.automaton import PhraseAutomaton, first_costs
from xuanzang.server.engine.decoding.phrases.tables import PhraseTables, Steps

_DEAD = -1.0e8
# Expected log-probability of a phrase that is still to come, where hypotheses with more and fewer compete for a place.
_PHRASE_AHEAD = -4.0
_LATER = 1.0e6
# Log-probability of the end, 1 in 20, from which on the model would have ended a hypothesis.
_WOULD_END = -3.0


class Inspection(NamedTuple):
    """Outputs of the decoder graph for single hypotheses, [row, ...]."""

    row_scores: Floats
    """Log-probabilities of the best continuations, best first."""
    row_ids: Ints
    """Their tokens."""
    required_scores: Floats
    """Log-probabilities of the tokens that were asked for."""


class Choice(NamedTuple):
    """The hypotheses of some sentences that live on and those that end, in this step."""

    scores: npt.NDArray[np.float64]
    """Summed log-probabilities, [sentence, beam]; that of a free place is hugely negative."""
    tokens: Ints
    """Last tokens, [sentence, beam]."""
    parents: Ints
    """Beam positions that they continue, [sentence, beam]."""
    endings: list[list[tuple[int, int, float]]]
    """Parent, last token and summed log-probability of those that end, by sentence, best first."""


class _Candidates(NamedTuple):
    """Continuations, [sentence, beam · token] each."""

    tokens: Ints
    totals: npt.NDArray[np.float64]
    valid: npt.NDArray[np.bool_]
    is_end: npt.NDArray[np.bool_]
    banks: Ints
    values: npt.NDArray[np.float64]
    """Totals and what the phrase begun is expected to cost yet; much less where the model would have ended before."""
    steps: Steps


class PhraseChoice:
    """Chooses the hypotheses of some sentences, all at once, and knows how far each has come with its phrases."""

    def __init__(self, beam_size: int, eos_id: int) -> None:
        self.beam_size, self._eos_id = beam_size, eos_id
        self.required_ids: Ints = np.zeros((0, 0), np.int64)
        """Ids of each hypothesis whose log-probabilities the next step needs, [sentence · beam, id], the end last; the
        same array until sentences join or leave."""
        self._automata: list[PhraseAutomaton] = []
        self._tables: PhraseTables | None = None
        self._states: Ints = np.zeros((0, beam_size), np.int64)
        self._counts = np.zeros((0, beam_size, 0), np.int16)
        self._overdue = np.zeros((0, beam_size), np.bool_)

    def rebuild(self, kept: Sequence[int], new: Sequence[PhraseAutomaton]) -> None:
        """Go on with some of the sentences, in the order given, and begin with new ones behind them."""
        costs = [self._tables.costs_of(number) for number in kept] if self._tables else []
        costs += map(first_costs, new)
        self._automata = [*(self._automata[number] for number in kept), *new]
        self._tables = PhraseTables(self._automata, costs) if self._automata else None
        phrases, wanted = (self._tables.phrases, self._tables.wanted) if self._tables else (0, 0)
        states, counts, size = self._states[kept], self._counts[kept], len(self._automata)
        self._states = np.zeros((size, self.beam_size), np.int64)
        self._states[: len(kept)] = states
        self._counts = np.zeros((size, self.beam_size, phrases), np.int16)
        common = min(phrases, counts.shape[2])
        self._counts[: len(kept), :, :common] = counts[:, :, :common]
        overdue, self._overdue = self._overdue[kept], np.zeros((size, self.beam_size), np.bool_)
        self._overdue[: len(kept)] = overdue
        # The last column is the end, which a complete hypothesis may always have.
        self.required_ids = np.full((size * self.beam_size, wanted + 1), self._eos_id, np.int64)
        self._ask()

    def _ask(self) -> None:
        if self._tables:
            self.required_ids[:, :-1] = self._tables.wanted_ids[self._global_states().ravel()]

    def _global_states(self) -> Ints:
        return self._tables.first_states[:, None] + self._states if self._tables else self._states

    def choose(self, scores: Floats, inspection: Inspection, steps_left: Ints) -> Choice:
        """Choose the hypotheses that live on, and go on with them.

        Args:
            scores: Summed log-probabilities of the hypotheses, [sentence, beam].
            steps_left: Tokens that the hypotheses of each sentence may have besides that of this step, [sentence].

        Returns:
            The hypotheses after this step; its arrays are good until the next one.
        """
        if self._tables is None:
            raise RuntimeError("no sentence requires phrases")
        ends = inspection.required_scores[:, -1].reshape(self._overdue.shape)
        self._overdue |= ends > _WOULD_END
        candidates = self._candidates(self._tables, scores, inspection, steps_left)
        endings = self._endings(candidates)
        chosen, scores_after = self._survivors(self._tables, candidates)
        sentences = np.arange(len(self._automata))[:, None]
        dead = scores_after < _DEAD
        self._states = np.where(dead, 0, candidates.steps.states[sentences, chosen])
        self._counts = candidates.steps.counts[sentences, chosen]
        self._ask()
        tokens = np.where(dead, self._eos_id, candidates.tokens[sentences, chosen])
        parents = np.where(dead, 0, chosen // (candidates.tokens.shape[1] // self.beam_size))
        self._overdue = self._overdue[sentences, parents] & ~dead
        return Choice(scores_after, tokens, parents, endings)

    def _candidates(
        self, tables: PhraseTables, scores: Floats, inspection: Inspection, steps_left: Ints
    ) -> _Candidates:
        """Judge all continuations."""
        places = self._global_states()
        lacking = tables.required[:, None] > self._counts + tables.pending[places]  # [sentence, beam, phrase]
        tokens, gains, wanted, helpful = self._continuations(tables, inspection, places, lacking)
        totals = scores[:, :, None].astype(np.float64) + gains
        is_end = tokens == self._eos_id
        may_end = ~np.any(lacking, axis=2, keepdims=True)
        valid = wanted & (totals > _DEAD) & (may_end | ~is_end)
        steps = tables.step(self._states, self._counts, tokens)
        after = tables.first_states[:, None, None] + steps.states
        missing = np.maximum(tables.required[:, None, None] - steps.counts - tables.pending[after], 0)
        within = tables.begun[after] & (missing > 0)
        begun = within.any(axis=3)
        # The first continuation is the next token of the phrase that a hypothesis is within, if it is.
        learning = np.any(tables.begun[places] & lacking, axis=2) & (gains[:, :, 0] > _DEAD)
        tables.learn(places[learning], gains[:, :, 0][learning])
        saved = (within * (tables.min_tokens[:, None, None] - tables.rest[after])).max(axis=3)
        left = (missing * tables.min_tokens[:, None, None]).sum(axis=3) - saved
        in_time = valid & (left < np.maximum(steps_left, 1)[:, None, None])
        # Where no hypothesis can hold all phrases in time any more, the search goes on without them.
        valid = np.where(in_time.any(axis=(1, 2), keepdims=True), in_time, valid)
        # What the model would have ended gets text of its own before its phrases only where nothing else lives on.
        is_padding = self._overdue[:, :, None] & ~may_end & ~helpful
        values = totals + np.where(begun, tables.ahead(after), 0.0) - np.where(is_padding, 2 * _LATER, 0.0)
        flat = (len(self._automata), -1)
        return _Candidates(
            tokens=tokens.reshape(flat),
            totals=totals.reshape(flat),
            valid=valid.reshape(flat),
            is_end=is_end.reshape(flat),
            banks=((tables.banks - 1)[:, None, None] - missing.sum(axis=3) + begun).reshape(flat),
            values=np.where(valid, values, -np.inf).reshape(flat),
            steps=Steps(steps.states.reshape(flat), steps.counts.reshape(*flat, tables.phrases)),
        )

    def _continuations(
        self, tables: PhraseTables, inspection: Inspection, places: Ints, lacking: npt.NDArray[np.bool_]
    ) -> tuple[Ints, Floats, npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Return tokens, required ones before the best; log-probabilities; whether they count, and bring phrases on."""
        shape = (len(self._automata), self.beam_size, -1)
        row_ids, wanted_ids = inspection.row_ids.reshape(shape), self.required_ids.reshape(shape)
        helpful = np.any(tables.wanted_for[places] & lacking[:, :, None], axis=3)
        wanted = np.concatenate([helpful, ~np.any(lacking, axis=2, keepdims=True)], axis=2)
        same = wanted_ids[:, :, :, None] == row_ids[:, :, None]
        scores = (inspection.required_scores.reshape(shape), inspection.row_scores.reshape(shape))
        return (
            np.concatenate([wanted_ids, row_ids], axis=2),
            np.concatenate(scores, axis=2),
            np.concatenate([wanted & ~same.any(axis=3), np.ones(row_ids.shape, np.bool_)], axis=2),
            np.concatenate([wanted, np.any(same & wanted[:, :, :, None], axis=2)], axis=2),
        )

    def _endings(self, candidates: _Candidates) -> list[list[tuple[int, int, float]]]:
        """Return the hypotheses that end: those among the best of the bank with all phrases."""
        found: list[list[tuple[int, int, float]]] = [[] for _ in range(len(self._automata))]
        ending = candidates.is_end & candidates.valid
        for number in np.flatnonzero(ending.any(axis=1)).tolist():
            bank = candidates.banks[number] == candidates.banks[number].max()
            for place in np.flatnonzero(ending[number]).tolist():
                value = candidates.values[number, place]
                if int((candidates.values[number][bank] > value).sum()) < self.beam_size:
                    parent = place // (candidates.tokens.shape[1] // self.beam_size)
                    found[number].append((parent, self._eos_id, float(candidates.totals[number, place])))
            found[number].sort(key=lambda ending: -ending[2])
        return found

    def _survivors(self, tables: PhraseTables, candidates: _Candidates) -> tuple[Ints, npt.NDArray[np.float64]]:
        """Return the candidates that live on, and their scores: the best of each bank, then the best of the others."""
        quotas = np.maximum(1, self.beam_size // tables.banks)  # [sentence]
        live = candidates.valid & ~candidates.is_end
        values = np.where(live, candidates.values, -np.inf)
        order = np.argsort(-values, axis=1, kind="stable")
        banks = np.take_along_axis(candidates.banks, order, axis=1)
        same = banks[:, :, None] == np.arange(int(banks.max()) + 1)
        ranks = np.take_along_axis(np.cumsum(same, axis=1), banks[:, :, None], axis=2)[:, :, 0] - 1
        ahead = _PHRASE_AHEAD * (tables.banks[:, None] - 1 - banks)
        worth = np.take_along_axis(values, order, axis=1) + ahead - _LATER * (ranks >= quotas[:, None])
        best = np.argsort(-worth, axis=1, kind="stable")[:, : self.beam_size]
        chosen = np.take_along_axis(order, best, axis=1)
        scores = np.where(
            np.take_along_axis(live, chosen, axis=1), np.take_along_axis(candidates.totals, chosen, axis=1), 10 * _DEAD
        )
        return chosen, scores


class RequiredPhraseSearch(PhraseChoice):
    """The sentences of a batch that require phrases; those without cost nothing."""

    def __init__(self, beam_size: int, eos_id: int) -> None:
        super().__init__(beam_size, eos_id)
        self.indices: Ints = np.zeros(0, np.int64)
        """Batch indices of the sentences that require phrases."""
        self.rows: Ints = np.zeros(0, np.int64)
        """Rows of the decoder to inspect."""
        self._places: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self.indices)

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
        self.rebuild(kept, new)
        self._places = {place: number for number, place in enumerate(places)}
        self.indices = np.array(places, np.int64)
        self.rows = (self.indices[:, None] * self.beam_size + np.arange(self.beam_size)).ravel()
