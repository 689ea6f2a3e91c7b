"""The hypotheses of a beam search, and the rules by which it ends: plain Python, for searches in torch and numpy."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence, Sized
from typing import NamedTuple, TypeVar

from tqdm import tqdm

Sentence = TypeVar("Sentence", bound=Sized)


class Hypothesis(NamedTuple):
    """One finished translation of one sentence."""

    target_ids: list[int]
    """Without bos and eos."""
    score: float
    """Summed log-probability divided by length ** length_penalty, eos counted in both; nats."""
    finished: bool
    """Ended in eos, rather than at the limit."""


class SearchRules(NamedTuple):
    """When searches end."""

    none_better: bool = False
    """True if a search with enough finished hypotheses goes on while a live one, divided by its present length, is
    better than the worst of them, as transformers' with early_stopping=False."""
    forces_end: bool = False
    """True if a hypothesis at its limit ends there at no cost, as with transformers' forced_eos_token_id."""


UNTIL_FIRST = SearchRules()


class Beam:
    """The hypotheses of one sentence."""

    def __init__(
        self,
        beam_size: int,
        num_hypotheses: int,
        length_penalty: float,
        max_target_length: int,
        rules: SearchRules = UNTIL_FIRST,
        prefix: Sequence[int] = (),
    ) -> None:
        self.prefix = prefix
        self._beam_size, self._num_hypotheses = beam_size, num_hypotheses
        self._penalty, self._limit, self._rules = length_penalty, max_target_length, rules
        self._tokens: list[list[int]] = [[] for _ in range(beam_size)]
        self._kept: list[Hypothesis] = []
        self._top_finished = False
        # All hypotheses are equal at first, so only one may be continued.
        self.scores = [0.0] + [-math.inf] * (beam_size - 1)
        self.parents = list(range(beam_size))
        self.done = False

    @property
    def last(self) -> list[int]:
        """Last token of each live hypothesis."""
        return [tokens[-1] for tokens in self._tokens]

    def advance(self, scores: list[float], parents: list[int], ids: list[int], eos_id: int) -> None:
        """Take the best continuations of one step, best first."""
        if self.done:
            return
        candidates = [c for c in zip(scores, parents, ids, strict=True) if c[0] > -math.inf]
        at_limit = len(self._tokens[0]) + 1 >= self._limit
        if at_limit and self._rules.forces_end:
            alive = [(score, parent, eos_id) for parent, score in enumerate(self.scores) if score > -math.inf]
            candidates = sorted(alive, key=lambda candidate: -candidate[0])
        for rank, (score, parent, token) in enumerate(candidates[: self._beam_size]):
            if token == eos_id:
                self._keep(self._tokens[parent], score, finished=True)
                self._top_finished |= rank == 0
            elif at_limit:
                self._keep([*self._tokens[parent], token], score, finished=False)
        live = [candidate for candidate in candidates if candidate[2] != eos_id][: self._beam_size]
        self.done = at_limit or not live or self._enough(live[0][0])
        # A tiny vocabulary may offer too few continuations: dead rows fill the beam.
        live += [(-math.inf, 0, eos_id)] * (self._beam_size - len(live))
        self._tokens = [[*self._tokens[parent], token] for _, parent, token in live]
        self.scores, self.parents = [score for score, _, _ in live], [parent for _, parent, _ in live]

    def hypotheses(self) -> list[Hypothesis]:
        """Return the finished hypotheses, best first."""
        return sorted(self._kept, key=lambda hypothesis: -hypothesis.score)[: self._num_hypotheses]

    def _keep(self, tokens: list[int], total: float, *, finished: bool) -> None:
        self._kept.append(Hypothesis(tokens, total / (len(tokens) + finished) ** self._penalty, finished))

    def _enough(self, best_live: float) -> bool:
        if self._rules.none_better:
            scores = sorted((hypothesis.score for hypothesis in self._kept), reverse=True)[: self._beam_size]
            best = best_live / (len(self._tokens[0]) + 1) ** self._penalty
            return len(scores) >= self._beam_size and best <= scores[-1]
        if self._penalty == 0:  # sums only sink, so the first to finish on top cannot be beaten
            return self._top_finished and len(self._kept) >= self._num_hypotheses
        return len(self._kept) >= self._beam_size


def translate_by_length(
    sentences: Sequence[Sentence],
    translate: Callable[[Sequence[Sentence]], list[list[Hypothesis]]],
    *,
    batch_sentences: int = 32,
    length: Callable[[Sentence], int] = len,
) -> list[list[Hypothesis]]:
    """Translate sentences in batches of like length, with a progress bar.

    Args:
        length: Function that returns the tokens of a sentence.

    Returns:
        Hypotheses of each sentence in the order given.
    """
    order = sorted(range(len(sentences)), key=lambda i: -length(sentences[i]))
    results: dict[int, list[Hypothesis]] = {}
    starts = range(0, len(order), batch_sentences)
    for start in tqdm(starts, desc="translating", unit="batch", file=sys.stderr, leave=False):
        part = order[start : start + batch_sentences]
        results.update(zip(part, translate([sentences[i] for i in part]), strict=True))
    return [results[i] for i in range(len(sentences))]
