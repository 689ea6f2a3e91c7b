"""How far the translations of two versions of a model agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xuanzang.server.engine.promotion.chrf import chrf


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Translations of the same texts by a candidate and by the live version."""

    exact_match: float
    """Share of equal translations, 0 to 1."""
    chrf: float
    """chrF of the candidate's translations with the live version's as references, 0 to 100."""
    length_ratio: float
    """Characters of the candidate's translations, divided by the live version's."""


def compare(candidate: Sequence[str], live: Sequence[str]) -> Agreement:
    """Compare translations.

    Args:
        candidate: Translations by the candidate, at least one.
        live: Translations of the same texts by the live version.

    Returns:
        How far they agree.
    """
    equal = sum(ours == theirs for ours, theirs in zip(candidate, live, strict=True))
    lengths = sum(map(len, candidate)), sum(map(len, live))
    return Agreement(
        exact_match=equal / len(candidate),
        # Two translations without a character that is no white space agree.
        chrf=100.0 if equal == len(candidate) else chrf(candidate, live),
        # One character stands for the nothing that no ratio can have below it.
        length_ratio=1.0 if lengths == (0, 0) else lengths[0] / max(1, lengths[1]),
    )
