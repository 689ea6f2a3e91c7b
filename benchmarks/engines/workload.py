"""Requests and answers of engines: batches of source ids with search options; times and target ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

FULL_BATCHES = {1: 32, 8: 8, 32: 4}
"""Batches per pass, by batch size."""
QUICK_BATCHES = {1: 6, 8: 1, 32: 1}
"""Batches per pass of a quick run, by batch size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Batches to translate one after another."""

    batches: Sequence[Sequence[Sequence[int]]]
    """Source ids of each sentence, eos included."""
    beam_size: int
    """Hypotheses kept at each step; the best is returned."""
    max_target_length: int
    """Maximum number of target tokens, eos counted."""
    min_seconds: float
    """Minimum duration; the batches are repeated until it has passed, so that a measurement is long enough."""
    max_batch: int = 0
    """Sentences that CTranslate2 translates together; 0 gives each of its workers its share of a batch."""


def workloads(
    sentences: Sequence[Sequence[int]],
    batches_by_size: dict[int, int],
    *,
    min_seconds: float,
) -> Iterator[Workload]:
    """Make the workloads of one model.

    Args:
        sentences: Source ids, eos included, of `sentences_needed` sentences or more. Their order is kept, so that a
            batch has the lengths of real traffic.
        min_seconds: Minimum duration of a measurement.

    Yields:
        A workload for each beam size and batch size.
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
    """Return the number of sentences that the largest set of batches takes."""
    return max(size * count for size, count in batches_by_size.items())


def target_limit(source: Sequence[object]) -> int:
    """Return the maximum number of target tokens of a sentence, the default of the server."""
    return 2 * len(source) + 20


class Translated(NamedTuple):
    """Result of one batch."""

    seconds: float
    """Time from ids, or pieces if the engine takes pieces, to hypotheses."""
    target_ids: list[list[int]]
    """Best hypothesis of each sentence, without eos."""


class Engine(Protocol):
    """A loaded model."""

    def translate(self, batch: Sequence[Sequence[int]], workload: Workload) -> Translated:
        """Translate one batch and time it."""
