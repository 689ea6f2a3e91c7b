"""State of a search: the live hypotheses of all sentences, and the tokens, endings and draws of each sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xuanzang.server.engine.arrays import Floats, Ints, Order, extended
from xuanzang.server.engine.decoding.hypotheses import Ending, SearchOptions, rank
from xuanzang.server.engine.types import SamplingOptions

DEAD_SCORE = np.float32(-1.0e9)
"""Score of a beam position without hypothesis: below any sum of log-probabilities, and finite in the graph."""
DEAD_LIMIT = float(DEAD_SCORE) / 2
"""Scores below are of beam positions without hypothesis."""
Candidate = tuple[float, int, int]
"""Summed log-probability, id, and beam position of the parent."""
# Room grows by this many steps.
_STEPS_CHUNK = 64
_Steps = list[list[list[int]]]
"""Tokens and parents of the hypotheses of a sentence, [step, 2, beam]."""


class Candidates(NamedTuple):
    """The best continuations of each sentence, best first, [batch, candidate] each."""

    scores: Floats
    """Summed log-probabilities."""
    ids: Ints
    """Tokens that they add."""
    parents: Ints
    """Beam positions of the hypotheses that they continue."""

    def of(self, index: int) -> list[tuple[float, int, int]]:
        """Return score, token and parent of each of a sentence."""
        return list(zip(*(array[index].tolist() for array in self), strict=True))


class BeamArrays(NamedTuple):
    """The live hypotheses of all sentences, as the next decoder step takes them."""

    token_ids: Ints
    """Last token of each hypothesis, [batch, beam]."""
    scores: Floats
    """Summed log-probability of each hypothesis, [batch, beam]."""
    positions: Ints
    """Position of `token_ids`, which is the number of tokens generated, [batch, 1]."""
    parents: Ints
    """Beam position of each hypothesis before the last step, [batch, beam]."""

    @classmethod
    def empty(cls, beam_size: int) -> BeamArrays:
        """Return arrays of no sentences."""
        ids = np.zeros((0, beam_size), dtype=np.int64)
        return cls(ids, ids.astype(np.float32), np.zeros((0, 1), dtype=np.int64), ids.copy())

    def extended(self, more: int) -> BeamArrays:
        """Return arrays with room for more sentences."""
        return BeamArrays._make(extended(array, more) for array in self)

    def selected(self, order: Order) -> BeamArrays:
        """Return the arrays of some sentences, in the memory of these."""
        return BeamArrays._make(order.apply(array) for array in self)


class Sampler:
    """Draws the tokens of one sentence; the draws depend on its seed alone, not on the batch."""

    def __init__(self, options: SamplingOptions) -> None:
        self._options = options
        self._generator = np.random.default_rng(options.seed)

    def choose(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Draw one of the continuations of one hypothesis, best first, among the first top_k; none if there are none.

        Source: nucleus sampling, Holtzman et al. 2020, arXiv:1904.09751, section 3.1.
        """
        pool = candidates[: self._options.top_k]
        if not pool:
            return []
        gains = np.array([score for score, _, _ in pool]) / self._options.temperature
        weights = np.exp(gains - gains.max())
        shares = weights / weights.sum()
        # The nucleus includes the token that reaches top_p.
        nucleus = int(np.searchsorted(np.cumsum(shares), self._options.top_p)) + 1
        kept = shares[:nucleus] / shares[:nucleus].sum()
        return [pool[self._generator.choice(len(kept), p=kept)]]


class History:
    """Links from each hypothesis to its parent; nothing moves when hypotheses change their beam positions.

    The tokens of a hypothesis are found by following the links back from its last one.
    """

    def __init__(self, beam_size: int) -> None:
        # Token and parent of each hypothesis, [batch, step, 2, beam]; sentences of any age share the steps.
        self.links: npt.NDArray[np.int32] = np.zeros((0, _STEPS_CHUNK, 2, beam_size), dtype=np.int32)
        self.steps = 0
        """Steps that have been recorded, or written to `links`: where the next one goes."""

    def extend(self, more: int) -> None:
        """Make room for sentences after the last one."""
        self.links = extended(self.links, more)

    def select(self, order: Order) -> None:
        """Keep some sentences, in the order given."""
        self.links = order.apply(self.links)

    def add(self, token_ids: Ints, parents: Ints, positions: Ints) -> None:
        """Record the token that each hypothesis got and its parent, [batch, beam]; `positions` are its tokens."""
        self.make_room(1, positions, added=1)
        self.links[:, self.steps, 0] = token_ids
        self.links[:, self.steps, 1] = parents
        self.steps += 1

    def make_room(self, steps: int, positions: Ints, *, added: int = 0) -> None:
        """Have room for steps; if there is none, forget those before the oldest sentence began.

        Of the tokens of each hypothesis, `positions` [batch, beam], `added` are not recorded yet.
        """
        if self.steps + steps > self.links.shape[1]:
            needed = int(positions.max()) - added
            self.links = extended(self.links[:, self.steps - needed : self.steps], max(steps, _STEPS_CHUNK), axis=1)
            self.steps = needed

    def tokens(self, index: int, beam_position: int, count: int, *, ago: int = 0) -> list[int]:
        """Return the last `count` tokens of the hypothesis that had a beam position some steps ago."""
        return self._follow(self._last(index, count, ago), beam_position)

    def shared(self, index: int, beam_positions: Sequence[int], count: int) -> list[int]:
        """Return the common first tokens of several hypotheses of a sentence."""
        steps = self._last(index, count, 0)
        ancestors = set(beam_positions)
        while len(ancestors) > 1 and steps:
            _, parents = steps.pop()
            ancestors = {parents[position] for position in ancestors}
        return self._follow(steps, ancestors.pop())

    def _last(self, index: int, count: int, ago: int) -> _Steps:
        end = self.steps - ago
        steps: _Steps = self.links[index, end - count : end].tolist()
        return steps

    @staticmethod
    def _follow(steps: _Steps, beam_position: int) -> list[int]:
        """Follow the links of a hypothesis back to the first of some steps; return its tokens."""
        tokens = []
        for ids, parents in reversed(steps):
            tokens.append(ids[beam_position])
            beam_position = parents[beam_position]
        return tokens[::-1]


class SentenceState:
    """The hypotheses of a sentence that have ended, and when its search needs a look at it. Counted in steps."""

    def __init__(self, options: SearchOptions, step: int) -> None:
        self.options = options
        self.endings: list[Ending] = []
        self._best_finished = False
        self.sampler = Sampler(options.decoding.sampling) if options.decoding.sampling else None
        # Counted in steps of the search.
        self.limit = step + options.max_target_length
        # With this rule a search may end in a step that ends no hypothesis.
        self.inspected_from = 0 if self.sampler or options.rules.none_better else self.limit
        self.edited_until = step + options.edited_tokens

    def end(self, ending: Ending, *, is_best: bool) -> None:
        """Add a hypothesis that has ended."""
        self.endings.append(ending)
        self._best_finished |= is_best
        if self.options.rules.shrinks:
            # From now on not all of the best continuations have a place.
            self.inspected_from = 0

    def is_enough(self, live: float) -> bool:
        """Return whether the search is over; `live`: score of the best hypothesis that goes on, as if it ended here."""
        options = self.options.decoding
        if self.options.rules.shrinks:
            return not self.places
        if self.options.rules.none_better:
            counted = rank(self.endings, options.beam_size)
            return len(counted) >= options.beam_size and live <= counted[-1].score
        if self._is_penalised:
            return len(self.endings) >= options.beam_size
        # Sums only sink, so the first best continuation that ends cannot be beaten.
        return self._best_finished and len(self.endings) >= options.num_hypotheses

    def is_settled(self, live: float) -> bool:
        """Return whether the search of a sentence that requires phrases is over.

        Its beam holds hypotheses that may not end yet, so that fewer end in a step than without phrases. `live` is the
        score of the best hypothesis that goes on, as if it ended with the next token at no cost.
        """
        beam_size, wanted = self.options.decoding.beam_size, self.options.decoding.num_hypotheses
        if len(self.endings) >= max(wanted, beam_size - beam_size // 4):
            return True
        return len(self.endings) >= wanted and live < max(ending.score for ending in self.endings)

    @property
    def places(self) -> int:
        """Places of the beam for hypotheses that may go on."""
        return self.options.decoding.beam_size - (len(self.endings) if self.options.rules.shrinks else 0)

    @property
    def endings_left(self) -> int:
        """Hypotheses that end until the search is over; 0 where their number does not decide."""
        rules = self.options.rules
        shrinks = rules.shrinks and self.options.decoding.beam_size > 1
        decides = self._is_penalised and not rules.none_better and not shrinks
        return self.options.decoding.beam_size - len(self.endings) if decides else 0

    @property
    def _is_penalised(self) -> bool:
        """True if a final score may exceed its sum, so that a hypothesis that ends later may rank first."""
        decoding = self.options.decoding
        return bool(decoding.length_penalty or decoding.coverage_penalty)
