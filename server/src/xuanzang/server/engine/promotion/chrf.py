"""chrF: how alike two texts are by their sequences of characters (Popović 2015)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
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

    Args:
        hypotheses: Texts.
        references: One reference for each.

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
