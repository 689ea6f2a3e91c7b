"""What one call took: sizes, and the times of its parts. Made only for those who ask."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from xuanzang.server.engine.scheduling.requests.timeline import SentenceTimeline


class SearchRecord(NamedTuple):
    """Sentences of a call that were submitted together. Times are on the clock of `time.monotonic`."""

    submitted_at: float
    ended_at: float
    sentences: int
    """Sentences that were submitted."""
    timelines: Sequence[SentenceTimeline]
    """Those of the sentences that were translated, in the order of the text."""

    @property
    def queue_ended_at(self) -> float:
        """Time at which the last sentence was taken from the queue, or at which the call ended without that."""
        if len(self.timelines) < self.sentences:
            return self.ended_at
        return max(timeline.taken_at for timeline in self.timelines)


@dataclass(slots=True, kw_only=True)
class CallRecord:
    """What one call took so far. Belongs to the event loop."""

    model: str
    version: int
    texts: int
    characters: int
    began_at: float = field(default_factory=time.monotonic)
    tokenized_at: float | None = None
    """Time at which its texts were split and tokenised; None before that."""
    ended_at: float = 0.0
    sentences: int = 0
    source_tokens: int = 0
    """Source tokens, end tokens counted."""
    target_tokens: int = 0
    """Target tokens of the best hypotheses, end tokens counted; 0 of a call that is not answered."""
    searches: list[SearchRecord] = field(default_factory=list)


class CallObserver(Protocol):
    """Asks for the records of calls."""

    @property
    def exemplar(self) -> dict[str, str] | None:
        """Labels of the exemplars of histograms, such as the trace's id; None for no exemplars."""

    def call_ended(self, record: CallRecord) -> None:
        """Take the record of a call that has ended, answered or not."""
