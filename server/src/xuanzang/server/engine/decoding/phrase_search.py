"""Search for translations that hold required phrases: beam search with a bank of hypotheses for each number of them.

A hypothesis is in bank n if it has n of its required phrases, a begun one included. Its continuations are
the best of the model and, whatever their probability, the next tokens of the phrases that it lacks; all have the
model's own log-probabilities. Each bank keeps its best: with one beam for all, hypotheses that have paid for a phrase
would lose to others. Only hypotheses with all phrases may end.

Source: grid beam search, Hokamp and Liu 2017, arXiv:1704.07138; dynamic beam allocation, Post and Vilar 2018,
arXiv:1804.06609. Unlike theirs, a bank stands for phrases and not for their tokens: a beam of 4 cannot keep
one of each. Hypotheses within a phrase are compared with others by what the rest of the phrase is expected to cost, as
last seen in the sentence; so they neither displace hypotheses that have paid for it nor are displaced
by later beginnings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xuanzang.server.engine.arrays import Floats, Ints, Order
from xuanzang.server.engine.decoding.phrase_automaton import PhraseAutomaton

_DEAD = -1.0e8
# Log-probability of a token that continues a phrase, before one was seen in the sentence, and the least that counts.
_UNSEEN_TOKEN = -1.0
_WORST_TOKEN = -30.0
# Expected log-probability of a missing phrase, where hypotheses with more and fewer compete for a place.
_PHRASE_AHEAD = -4.0
_LATER = 1.0e6
# Log-probability of the end, 1 in 20, above which the model would have ended a hypothesis.
_WOULD_END = -3.0


class Inspection(NamedTuple):
    """Outputs of the decoder graph for single hypotheses, [row, ...]."""

    row_scores: Floats
    """Log-probabilities of the best continuations, best first."""
    row_ids: Ints
    """Their tokens."""
    required_scores: Floats
    """Log-probabilities of the tokens that were asked for."""

    def of(self, rows: slice) -> Inspection:
        """Return that of some rows."""
        return Inspection(self.row_scores[rows], self.row_ids[rows], self.required_scores[rows])


class Choice(NamedTuple):
    """The live and the finished hypotheses of a sentence in this step."""

    scores: npt.NDArray[np.float64]
    """Summed log-probabilities, [beam]; that of a free place is hugely negative."""
    tokens: Ints
    """Last tokens, [beam]."""
    parents: Ints
    """Beam positions that they continue, [beam]."""
    endings: list[tuple[int, int, float]]
    """Parent, last token and summed log-probability of the finished ones, best first."""


class _Candidates(NamedTuple):
    """Continuations, [beam · token] each."""

    tokens: Ints
    totals: npt.NDArray[np.float64]
    valid: npt.NDArray[np.bool_]
    is_end: npt.NDArray[np.bool_]
    banks: Ints
    values: npt.NDArray[np.float64]
    """Totals and what the phrase begun is expected to cost yet; much less where the model would have ended before."""
    states: Ints
    """State of the automaton after the token."""
    counts: npt.NDArray[np.int16]
    """Times that each phrase has occurred for good, at most as often as required, [..., phrase]."""


class PhraseChoice:
    """Chooses the hypotheses of one sentence, and knows how far each has come with its phrases."""

    def __init__(self, automaton: PhraseAutomaton, beam_size: int, eos_id: int) -> None:
        self._automaton, self._beam_size, self._eos_id = automaton, beam_size, eos_id
        self._phrases = int(automaton.required.sum())
        self._states: Ints = np.zeros(beam_size, np.int64)
        self._counts = np.zeros((beam_size, len(automaton.required)), np.int16)
        self._overdue = np.zeros(beam_size, np.bool_)
        # Last cost of a phrase's next token in each state; the last element is for no state.
        self._costs = np.append(np.where(automaton.states.begun.any(axis=1), _UNSEEN_TOKEN, 0.0), 0.0)

    @property
    def wanted_ids(self) -> Ints:
        """Tokens that bring the phrases of each hypothesis further, [beam, wanted]."""
        return self._automaton.states.wanted_ids[self._states]

    def choose(self, scores: Floats, inspection: Inspection, steps_left: int) -> Choice:
        """Choose the hypotheses that live on, and go on with them.

        Args:
            scores: Summed log-probabilities of the hypotheses, [beam].
            inspection: Rows of the sentence; the last token asked for is the end, those before the first are wanted.
            steps_left: Tokens that hypotheses may have after this step.
        """
        self._overdue |= inspection.required_scores[:, -1] > _WOULD_END
        candidates = self._candidates(scores, inspection, steps_left)
        width = len(candidates.tokens) // self._beam_size
        endings = self._endings(candidates, width)
        chosen, scores_after = self._survivors(candidates)
        dead = scores_after < _DEAD
        self._states = np.where(dead, 0, candidates.states[chosen])
        self._counts = candidates.counts[chosen]
        tokens = np.where(dead, self._eos_id, candidates.tokens[chosen])
        parents = np.where(dead, 0, chosen // width)
        self._overdue = self._overdue[parents] & ~dead
        return Choice(scores_after, tokens, parents, endings)

    def _candidates(self, scores: Floats, inspection: Inspection, steps_left: int) -> _Candidates:
        """Judge all continuations: required ones, then the best."""
        automaton, facts, now = self._automaton, self._automaton.states, self._states
        required, min_tokens = automaton.required, automaton.min_tokens
        lacking = required > self._counts + facts.pending[now]  # [beam, phrase]
        may_end = ~lacking.any(axis=1, keepdims=True)
        tokens, gains, counted, helpful = self._continuations(inspection, lacking)  # [beam, token]
        totals = scores[:, None].astype(np.float64) + gains
        is_end = tokens == self._eos_id
        valid = counted & (totals > _DEAD) & (may_end | ~is_end)
        symbols = automaton.symbols[tokens]
        states = automaton.next_states[now[:, None], symbols].astype(np.int64)
        gained = automaton.gains[automaton.gained[now[:, None], symbols]]
        counts = np.minimum(self._counts[:, None] + gained, required)  # [beam, token, phrase]
        written = counts + facts.pending[states] > 0
        valid &= ~(written & ~written[..., automaton.after]).any(axis=2)
        missing = np.maximum(required - counts - facts.pending[states], 0)
        within = facts.begun[states] & (missing > 0)
        begun = within.any(axis=2)
        # The first continuation is the next token of the phrase that a hypothesis is within, if it is.
        learning = np.any(facts.begun[now] & lacking, axis=1) & (gains[:, 0] > _DEAD)
        self._learn(now[learning], gains[:, 0][learning])
        saved = (within * (min_tokens - facts.rest[states])).max(axis=2)
        in_time = valid & ((missing * min_tokens).sum(axis=2) - saved < max(steps_left, 1))
        # A hypothesis that the model would have ended goes on without its phrases only where no other lives on.
        is_padding = self._overdue[:, None] & ~may_end & ~helpful
        ahead = np.where(begun, self._costs[facts.chains[states]].sum(axis=2), 0.0)
        # Once no hypothesis can hold all phrases in time, the search goes on without them.
        valid = in_time if in_time.any() else valid
        return _Candidates(
            tokens=tokens.ravel(),
            totals=totals.ravel(),
            valid=valid.ravel(),
            is_end=is_end.ravel(),
            banks=(self._phrases - missing.sum(axis=2) + begun).ravel(),
            values=np.where(valid, totals + ahead - np.where(is_padding, 2 * _LATER, 0.0), -np.inf).ravel(),
            states=states.ravel(),
            counts=counts.reshape(-1, len(required)),
        )

    def _continuations(
        self, inspection: Inspection, lacking: npt.NDArray[np.bool_]
    ) -> tuple[Ints, Floats, npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Return tokens, required ones before the best; log-probabilities; whether they count, and bring phrases on."""
        row_scores, row_ids, asked = inspection
        ends = np.full((self._beam_size, 1), self._eos_id)
        wanted_ids = np.concatenate([self.wanted_ids, ends], axis=1)
        wanted_scores = np.concatenate([asked[:, : wanted_ids.shape[1] - 1], asked[:, -1:]], axis=1)
        helpful = np.any(self._automaton.states.wanted_for[self._states] & lacking[:, None], axis=2)
        wanted = np.concatenate([helpful, ~lacking.any(axis=1, keepdims=True)], axis=1)
        same = wanted_ids[:, :, None] == row_ids[:, None]
        return (
            np.concatenate([wanted_ids, row_ids], axis=1),
            np.concatenate([wanted_scores, row_scores], axis=1),
            np.concatenate([wanted & ~same.any(axis=2), np.ones(row_ids.shape, np.bool_)], axis=1),
            np.concatenate([wanted, np.any(same & wanted[:, :, None], axis=1)], axis=1),
        )

    def _learn(self, states: Ints, gains: Floats) -> None:
        """Note the log-probability of the next token of the phrases that states are within; the greatest counts."""
        self._costs[states] = -np.inf
        np.maximum.at(self._costs, states, np.maximum(gains, _WORST_TOKEN))

    def _endings(self, candidates: _Candidates, width: int) -> list[tuple[int, int, float]]:
        """Return the hypotheses that end: those among the best of the bank with all phrases."""
        places = np.flatnonzero(candidates.is_end & candidates.valid).tolist()
        whole = candidates.values[candidates.banks == self._phrases] if places else candidates.values
        found = [
            (place // width, self._eos_id, float(candidates.totals[place]))
            for place in places
            if int((whole > candidates.values[place]).sum()) < self._beam_size
        ]
        return sorted(found, key=lambda ending: -ending[2])

    def _survivors(self, candidates: _Candidates) -> tuple[Ints, npt.NDArray[np.float64]]:
        """Return the candidates that live on, and their scores: the best of each bank, then the best of the others."""
        quota = max(1, self._beam_size // (self._phrases + 1))
        live = candidates.valid & ~candidates.is_end
        values = np.where(live, candidates.values, -np.inf)
        order = np.argsort(-values, kind="stable")
        banks = candidates.banks[order]
        same = banks[:, None] == np.arange(self._phrases + 1)
        ranks = np.take_along_axis(np.cumsum(same, axis=0), banks[:, None], axis=1)[:, 0] - 1
        worth = values[order] + _PHRASE_AHEAD * (self._phrases - banks) - _LATER * (ranks >= quota)
        chosen = order[np.argsort(-worth, kind="stable")[: self._beam_size]]
        return chosen, np.where(live[chosen], candidates.totals[chosen], 10 * _DEAD)


class RequiredPhraseSearch:
    """The sentences of a batch that require phrases; those without cost nothing."""

    def __init__(self, beam_size: int, eos_id: int) -> None:
        self.beam_size, self._eos_id = beam_size, eos_id
        self.required_ids: Ints = np.zeros((0, 0), np.int64)
        """Ids of each hypothesis whose log-probabilities the next step needs, [sentence · beam, id], the end last; the
        same array until sentences join or leave."""
        self.indices: Ints = np.zeros(0, np.int64)
        """Batch indices of the sentences that require phrases."""
        self.rows: Ints = np.zeros(0, np.int64)
        """Rows of the decoder to inspect."""
        self._choices: Mapping[int, PhraseChoice] = {}
        """By batch index."""

    def __len__(self) -> int:
        return len(self._choices)

    def join(self, indices: Ints, automata: Sequence[PhraseAutomaton | None]) -> None:
        """Begin with sentences at batch indices that are free or the next; None for those without phrases."""
        joining = dict(zip(indices.tolist(), automata, strict=True))
        kept = {index: choice for index, choice in self._choices.items() if index not in joining}
        new = {index: PhraseChoice(each, self.beam_size, self._eos_id) for index, each in joining.items() if each}
        if new or len(kept) < len(self):
            self._rebuild(kept | new)

    def select(self, order: Order) -> None:
        """Keep the sentences at some batch indices, in the order given."""
        if len(self):
            places = enumerate(order.kept.tolist())
            self._rebuild({place: self._choices[index] for place, index in places if index in self._choices})

    def choose(self, scores: Floats, inspection: Inspection, steps_left: Ints) -> list[tuple[int, Choice]]:
        """Choose the hypotheses that live on, and go on with them.

        Args:
            scores: Summed log-probabilities of the hypotheses, [sentence, beam].
            steps_left: Tokens that the hypotheses of each sentence may have after this step, [sentence].

        Returns:
            Batch index of each sentence, and its hypotheses after this step.
        """
        found = []
        for number, (index, choice) in enumerate(self._choices.items()):
            inspected = inspection.of(self._rows_of(number))
            found.append((index, choice.choose(scores[number], inspected, int(steps_left[number]))))
        self._ask()
        return found

    def _rebuild(self, choices: Mapping[int, PhraseChoice]) -> None:
        self._choices = choices
        self.indices = np.array([*choices], np.int64)
        self.rows = (self.indices[:, None] * self.beam_size + np.arange(self.beam_size)).ravel()
        # The last column is the end, which a complete hypothesis may always have.
        wanted = max((choice.wanted_ids.shape[1] for choice in choices.values()), default=0)
        self.required_ids = np.full((len(self.rows), wanted + 1), self._eos_id, np.int64)
        self._ask()

    def _ask(self) -> None:
        for number, choice in enumerate(self._choices.values()):
            wanted_ids = choice.wanted_ids
            self.required_ids[self._rows_of(number), : wanted_ids.shape[1]] = wanted_ids

    def _rows_of(self, number: int) -> slice:
        return slice(number * self.beam_size, (number + 1) * self.beam_size)
