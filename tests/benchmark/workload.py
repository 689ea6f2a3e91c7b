"""What both engines are given: batches of real sentences, and how to search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

FULL_BATCHES = {1: 32, 8: 8, 32: 4}
"""Batches per pass, by batch size."""
QUICK_BATCHES = {1: 6, 8: 1, 32: 1}
"""The same when time is short."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Batches that are translated one after the other."""

    batches: Sequence[Sequence[Sequence[int]]]
    """Source ids of each sentence, eos included."""
    beam_size: int
    """Hypotheses kept; the best is returned."""
    max_target_length: int
    """Most target tokens, eos counted."""
    min_seconds: float
    """The batches are repeated until this has passed, so that a pass is long enough for the clock."""


def workloads(
    sentences: Sequence[Sequence[int]],
    batches_by_size: dict[int, int],
    *,
    min_seconds: float,
) -> Iterator[Workload]:
    """Make the workloads of one model.

    Args:
        sentences: Source ids, eos included, `sentences_needed` or more. Their order is kept, so that a batch has the
            lengths of real traffic.
        batches_by_size: Batches of each size.
        min_seconds: Least duration of a measurement.

    Yields:
        One for each beam size and batch size.
    """
    for beam_size in (1, 4):
        for size, count in batches_by_size.items():
            used = sentences[: size * count]
            yield Workload(
                batches=[used[start : start + size] for start in range(0, len(used), size)],
                beam_size=beam_size,
                max_target_length=max(map(target_limit, used)),
                min_seconds=min_seconds,
            )


def sentences_needed(batches_by_size: dict[int, int]) -> int:
    """Return how many sentences the batches take at most."""
    return max(size * count for size, count in batches_by_size.items())


def target_limit(source: Sequence[object]) -> int:
    """Return the most tokens that the translation of a sentence may have, as the server limits it by default."""
    return 2 * len(source) + 20
