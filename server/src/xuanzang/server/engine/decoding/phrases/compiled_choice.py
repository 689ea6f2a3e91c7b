"""The choice of `ArrayChoice` by a function of the kernels' library: equal bit for bit, in a fraction of the time."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from xuanzang.kernels.phrase_choice import PhraseSentence, PhraseStep
from xuanzang.kernels.step_functions import StepFunctions, address
from xuanzang.server.engine.arrays import Array, Floats, Ints
from xuanzang.server.engine.decoding.phrases.automaton import PhraseAutomaton, first_costs
from xuanzang.server.engine.decoding.phrases.search import Choice, Inspection


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _Sentence:
    """A sentence; the library changes the arrays of its hypotheses."""

    automaton: PhraseAutomaton
    costs: npt.NDArray[np.float64]
    states: Ints
    counts: npt.NDArray[np.int16]
    overdue: npt.NDArray[np.bool_]
    wanted: int
    """Tokens that a hypothesis may ask for."""
    structure: PhraseSentence
    """What the library gets of it."""

    @classmethod
    def new(cls, automaton: PhraseAutomaton, beam_size: int) -> _Sentence:
        """Return a sentence whose hypotheses are empty."""
        one, states = automaton, automaton.states
        costs, places = first_costs(one), np.zeros(beam_size, np.int64)
        counts, overdue = np.zeros((beam_size, len(one.required)), np.int16), np.zeros(beam_size, np.bool_)
        tables: list[Array] = [one.required, one.min_tokens, one.symbols, one.next_states, one.gained, one.gains]
        tables += [states.pending, states.rest, states.begun, states.wanted_for, states.wanted_ids, states.chains]
        wanted = states.wanted_ids.shape[1]
        widths = (len(one.required), wanted, one.next_states.shape[1], states.chains.shape[1])
        structure = PhraseSentence(*widths, *map(address, [*tables, costs, places, counts, overdue]))
        return cls(
            automaton=one,
            costs=costs,
            states=places,
            counts=counts,
            overdue=overdue,
            wanted=wanted,
            structure=structure,
        )


class CompiledChoice:
    """Chooses with the library's functions."""

    def __init__(self, functions: StepFunctions, beam_size: int, eos_id: int) -> None:
        self._functions, self._beam_size, self._eos_id = functions, beam_size, eos_id
        self._sentences: list[_Sentence] = []
        self.rebuild([], [])

    def rebuild(self, kept: Sequence[int], new: Sequence[PhraseAutomaton]) -> None:
        """Go on with some of the sentences, in the order given, and begin with new ones behind them."""
        beginning = [_Sentence.new(automaton, self._beam_size) for automaton in new]
        self._sentences = [*(self._sentences[number] for number in kept), *beginning]
        shape = (len(self._sentences), self._beam_size)
        wanted = max((each.wanted for each in self._sentences), default=0)
        self.required_ids: Ints = np.zeros((shape[0] * self._beam_size, wanted + 1), np.int64)
        # The last column is the end, which a complete hypothesis may always have.
        self.required_ids[:, -1] = self._eos_id
        self._structures = (PhraseSentence * shape[0])(*(each.structure for each in self._sentences))
        self._scores, self._steps_left = np.zeros(shape, np.float32), np.zeros(shape[0], np.int64)
        self._choice = Choice(np.zeros(shape), np.zeros(shape, np.int64), np.zeros(shape, np.int64), [])
        self._ending_parents, self._ending_scores = np.zeros(shape, np.int64), np.zeros(shape)
        self._inspection: Inspection | None = None
        unknown = Inspection(self._scores, self.required_ids, self._scores)
        self._functions.ask_for_phrases(ctypes.byref(self._step_of(unknown)))

    def _step_of(self, inspection: Inspection) -> PhraseStep:
        """Return what the library gets of a step."""
        widths = (len(self._sentences), self._beam_size, inspection.row_ids.shape[1], self.required_ids.shape[1])
        arrays: list[Array] = [self._scores, self._steps_left, inspection.row_scores, inspection.row_ids]
        arrays += [inspection.required_scores, self.required_ids, *self._choice[:3]]
        arrays += [self._ending_parents, self._ending_scores]
        return PhraseStep(*widths, self._eos_id, self._structures, *map(address, arrays))

    def choose(self, scores: Floats, inspection: Inspection, steps_left: Ints) -> Choice:
        """Choose the hypotheses that live on, and go on with them; see `PhraseChoice`."""
        if inspection is not self._inspection:
            # The graph writes into the same arrays until sentences join or leave.
            self._inspection, self._step = inspection, self._step_of(inspection)
        self._scores[:], self._steps_left[:] = scores, steps_left
        count = self._functions.choose_phrases(ctypes.byref(self._step))
        if count < 0:
            raise MemoryError("no memory for the continuations of hypotheses")
        endings = self._endings() if count else [[] for _ in self._sentences]
        return Choice(*self._choice[:3], endings)

    def _endings(self) -> list[list[tuple[int, int, float]]]:
        found: list[list[tuple[int, int, float]]] = [[] for _ in self._sentences]
        parents = self._ending_parents
        for sentence, place in np.argwhere(parents >= 0).tolist():
            ending = (int(parents[sentence, place]), self._eos_id, float(self._ending_scores[sentence, place]))
            found[sentence].append(ending)
        return found
