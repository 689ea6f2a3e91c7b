"""Drawing the next token at random."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xuanzang.server.engine.types import SamplingOptions

Candidate = tuple[float, int, int]
"""Summed log-probability, id, parent."""


class Sampler:
    """Draws the tokens of one sentence; what it draws depends on its seed alone, not on the batch."""

    def __init__(self, sampling: SamplingOptions) -> None:
        self._sampling = sampling
        self._generator = np.random.default_rng(sampling.seed)

    def choose(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Draw one of the continuations of one hypothesis.

        Args:
            candidates: Best first; only the first top_k are looked at.

        Returns:
            The drawn one, or none if there is none.
        """
        pool = candidates[: self._sampling.top_k]
        if not pool:
            return []
        gains = np.array([score for score, _, _ in pool]) / self._sampling.temperature
        weights = np.exp(gains - gains.max())
        shares = weights / weights.sum()
        # The nucleus of Holtzman et al. 2020, arXiv:1904.09751, section 3.1: up to the token that reaches top_p.
        nucleus = int(np.searchsorted(np.cumsum(shares), self._sampling.top_p)) + 1
        kept = shares[:nucleus] / shares[:nucleus].sum()
        return [pool[self._generator.choice(len(kept), p=kept)]]
