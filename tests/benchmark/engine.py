"""Interface of both engines: source ids in, time and target ids out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from workload import Workload


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
