"""How alike texts are: chrF (Popović 2015), and how far the translations of two versions agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

# The values of the paper, and of sacrebleu's chrF2: sequences of 1 to 6 characters, recall counts four times.
_MAX_LENGTH = 6
_RECALL_WEIGHT = 4


class _Matches(NamedTuple):
    """Sequences of one length."""

    found: int
    """Of the hypotheses, as far as their references are long enough to have any."""
    wanted: int
    """Of the references."""
    shared: int


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Compare texts with their references.

    Returns:
        0 for nothing in common to 100 for equal texts, white space apart. Counts are summed over all texts, so long
        ones count more; for one text it is the chrF of a sentence.
    """
    pairs = [(_characters(text), _characters(wanted)) for text, wanted in zip(hypotheses, references, strict=True)]
    lengths = (_count(pairs, length) for length in range(1, _MAX_LENGTH + 1))
    # A length that one side is too short for says nothing.
    counted = [counts for counts in lengths if counts.found and counts.wanted]
    if not counted:
        return 0.0
    precision = sum(counts.shared / counts.found for counts in counted) / len(counted)
    recall = sum(counts.shared / counts.wanted for counts in counted) / len(counted)
    if not precision + recall:
        return 0.0
    return 100 * (1 + _RECALL_WEIGHT) * precision * recall / (_RECALL_WEIGHT * precision + recall)


def _characters(text: str) -> str:
    return "".join(text.split())


def _count(pairs: Sequence[tuple[str, str]], length: int) -> _Matches:
    found = wanted = shared = 0
    for text, reference in pairs:
        ours, theirs = Counter(_sequences(text, length)), Counter(_sequences(reference, length))
        found += ours.total() if theirs else 0
        wanted += theirs.total()
        shared += (ours & theirs).total()
    return _Matches(found, wanted, shared)


def _sequences(text: str, length: int) -> Iterator[str]:
    return (text[start : start + length] for start in range(len(text) - length + 1))


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
    """Compare translations."""
    equal = sum(ours == theirs for ours, theirs in zip(candidate, live, strict=True))
    lengths = sum(map(len, candidate)), sum(map(len, live))
    return Agreement(
        exact_match=equal / len(candidate),
        # Two translations without a character that is no white space agree.
        chrf=100.0 if equal == len(candidate) else chrf(candidate, live),
        # One character stands for the nothing that no ratio can have below it.
        length_ratio=1.0 if lengths == (0, 0) else lengths[0] / max(1, lengths[1]),
    )
