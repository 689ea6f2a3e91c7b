"""The automata of all sentences of a batch that have required phrases, one after the other in the same arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from xuanzang.server.engine.arrays import Floats, Ints
from xuanzang.server.engine.decoding.phrases.automaton import PhraseAutomaton

_WORST_TOKEN = -30.0
# Sums of multiples of this are exact in any order, so that they do not depend on the other sentences.
_PRECISION = 2.0**-10

_Number = TypeVar("_Number", bound=np.generic)


class Steps(NamedTuple):
    """Transitions by tokens: arrays of one shape, and of that shape and the phrases."""

    states: Ints
    """State of the sentence's automaton after the token."""
    counts: npt.NDArray[np.int16]
    """Times that each phrase has occurred for good, at most as often as required, [..., phrase]."""


class PhraseTables:
    """Arrays of many automata; states and symbols of each begin at offsets of its own. Axis 0 counts sentences."""

    def __init__(self, automata: Sequence[PhraseAutomaton], costs: Iterable[npt.NDArray[np.float64]]) -> None:
        """Put automata together; costs of each are from `first_costs` or tables that these replace."""
        phrases = max(len(one.required) for one in automata)
        wanted = max(one.states.wanted_ids.shape[1] for one in automata)
        sizes = [len(one.next_states) for one in automata]
        cells = [one.next_states.size for one in automata]
        self.phrases, self.wanted = phrases, wanted
        self.required = _stacked([one.required[None] for one in automata], phrases)
        self.min_tokens = _stacked([one.min_tokens[None] for one in automata], phrases)
        self.banks = self.required.sum(axis=1) + 1
        self.pending = _stacked([one.states.pending for one in automata], phrases)
        self.begun = _stacked([one.states.begun for one in automata], phrases)
        self.rest = _stacked([one.states.rest for one in automata], phrases)
        self.wanted_ids = _stacked([one.states.wanted_ids for one in automata], wanted)
        self.wanted_for = _stacked([one.states.wanted_for for one in automata], wanted, phrases)
        # As last seen in the sentence; the last element is that of no state.
        self._costs = np.concatenate([*costs, np.zeros(1)])
        self.first_states = np.cumsum([0, *sizes[:-1]])
        self._chains = self._global_chains([one.states.chains for one in automata])
        self._symbols = np.stack([one.symbols for one in automata])
        self._first_cells = np.cumsum([0, *cells[:-1]])
        self._widths = np.array([one.next_states.shape[1] for one in automata])
        self._next_states = np.concatenate([one.next_states.ravel() for one in automata])
        first_gains = np.cumsum([0, *(len(one.gains) for one in automata[:-1])])
        gained = [one.gained.ravel() + first for one, first in zip(automata, first_gains, strict=True)]
        self._gained = np.concatenate(gained)
        self._gains = _stacked([one.gains for one in automata], phrases)

    def _global_chains(self, chains: Sequence[Ints]) -> Ints:
        nowhere = len(self._costs) - 1
        placed = np.full((nowhere, max(each.shape[1] for each in chains)), nowhere, np.int64)
        for first, each in zip(self.first_states.tolist(), chains, strict=True):
            placed[first : first + len(each), : each.shape[1]] = np.where(each < 0, nowhere, each + first)
        return placed

    def costs_of(self, sentence: int) -> npt.NDArray[np.float64]:
        """Return what the next token of a phrase was last seen to cost in each state of one sentence."""
        ends = [*self.first_states[1:].tolist(), len(self._costs) - 1]
        return np.array(self._costs[self.first_states[sentence] : ends[sentence]])

    def ahead(self, states: Ints) -> npt.NDArray[np.float64]:
        """Return the expected log-probability of the rest of the phrase that each state is within."""
        expected: npt.NDArray[np.float64] = self._costs[self._chains[states]].sum(axis=-1)
        return expected

    def learn(self, states: Ints, gains: Floats) -> None:
        """Note the log-probability of the next token of the phrases that states are within; the greatest counts."""
        self._costs[states] = -np.inf
        seen = np.round(np.maximum(gains, _WORST_TOKEN) / _PRECISION) * _PRECISION
        np.maximum.at(self._costs, states, seen)

    def step(self, states: Ints, counts: npt.NDArray[np.int16], tokens: Ints) -> Steps:
        """Return where tokens [sentence, beam, token] lead from states [sentence, beam] and counts [..., phrase]."""
        sentences = np.arange(len(states))[:, None, None]
        starts = self._first_cells[:, None] + states * self._widths[:, None]
        cells = starts[:, :, None] + self._symbols[sentences, tokens]
        found = counts[:, :, None] + self._gains[self._gained[cells]]
        return Steps(self._next_states[cells].astype(np.int64), np.minimum(found, self.required[:, None, None]))


def _stacked(tables: Sequence[npt.NDArray[_Number]], *widths: int) -> npt.NDArray[_Number]:
    """Return tables [row, ...] one after the other, each filled up with zeros to the widths of the other axes."""
    stacked = np.zeros((sum(map(len, tables)), *widths), tables[0].dtype)
    start = 0
    for table in tables:
        rows = slice(start, start + len(table))
        stacked[(rows, *map(slice, table.shape[1:]))] = table
        start += len(table)
    return stacked
