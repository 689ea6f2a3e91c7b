"""Records of how the sentences of one call were searched, for callers who ask for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xuanzang.server.engine.scheduling.call import SentenceTimeline
from xuanzang.server.engine.scheduling.request import PlannedSearch, SentenceResult
from xuanzang.server.engine.text.codec import Segment


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceRecord:
    """How one sentence was searched once; searching again for a repetition or missing terms does not count."""

    sentence_index: int
    """Index of the sentence in its text."""
    max_target_length: int
    """Maximum target tokens that were in effect, eos counted."""
    timeline: SentenceTimeline
    source_with_terms: str = ""
    """The sentence as the model read it, if translations were put in the place of terms."""


class Journal:
    """Records of the searches of one call. Belongs to the event loop."""

    def __init__(self) -> None:
        # By text.
        self._records: dict[int, list[SentenceRecord]] = {}
        # Text and position in it of each sentence of the call.
        self._places: list[tuple[int, int]] = []

    def begin(self, texts: Iterable[Sequence[Segment]], searches: Sequence[PlannedSearch]) -> None:
        """Take the sentences of the call.

        Raises:
            ValueError: There are more searches than sentences, or fewer.
        """
        counts = (sum(1 for segment in segments if segment.source_ids) for segments in texts)
        self._places = [(text, sentence) for text, count in enumerate(counts) for sentence in range(count)]
        if len(searches) != len(self._places):
            raise ValueError(f"{len(self._places)} sentences have {len(searches)} searches")

    def add(self, searches: Iterable[tuple[int, PlannedSearch]], results: Iterable[SentenceResult]) -> None:
        """Record searches that are done.

        Args:
            searches: Searches, each with the position of its sentence among those of the call.
            results: Their results, in the same order.
        """
        for (owner, search), result in zip(searches, results, strict=True):
            text_index, sentence_index = self._places[owner]
            record = SentenceRecord(
                sentence_index=sentence_index,
                max_target_length=search.sentence.options.max_target_length,
                timeline=result.timeline,
                source_with_terms=search.renderer.source_with_terms,
            )
            self._records.setdefault(text_index, []).append(record)

    def of_text(self, text_index: int) -> list[SentenceRecord]:
        """Return the records of one text, in the order of its sentences."""
        return sorted(self._records.get(text_index, []), key=lambda record: record.sentence_index)
