"""Random choice of the next token."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xuanzang.server.engine.types import SamplingOptions

Candidate = tuple[float, int, int]
"""Summed log-probability, id, and beam position of the parent."""


class Sampler:
    """Draws the tokens of one sentence; the draws depend on its seed alone, not on the batch."""

    def __init__(self, options: SamplingOptions) -> None:
        self._options = options
        self._generator = np.random.default_rng(options.seed)

    def choose(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Draw one of the continuations of one hypothesis.

        Args:
            candidates: Continuations, best first; only the first top_k are considered.

        Returns:
            The drawn one; empty if there are no candidates.

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
