"""The record of the search of one sentence, from the journal of its call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from typing_extensions import override

from xuanzang.server.engine.calls.journal import Journal
from xuanzang.server.engine.decoding.hypotheses import SearchOptions, TargetHypothesis
from xuanzang.server.engine.decoding.search_recorder import SearchRecorder
from xuanzang.server.engine.errors import FieldViolation, InvalidInputError
from xuanzang.server.engine.scheduling.requests.request import PlannedSearch, SentenceResult
from xuanzang.server.engine.text.codec import Segment
from xuanzang.server.engine.text.offsets import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSearch:
    """A search that is over."""

    source_ids: Sequence[int]
    spans: Sequence[Span]
    """Characters of the content that each source token stands for."""
    options: SearchOptions
    """Options of the last search."""
    found: Sequence[TargetHypothesis]
    """Hypotheses returned, best first, with details."""
    recorder: SearchRecorder


class SearchJournal(Journal):
    """Has the search of a call with one sentence recorded."""

    def __init__(self, *, max_tokens: int) -> None:
        """Begin before the call.

        Args:
            max_tokens: Maximum source tokens of the sentence, and steps to keep.
        """
        super().__init__()
        self._max_tokens = max_tokens
        self._recorder = SearchRecorder(max_steps=max_tokens)
        self.search: RecordedSearch | None = None
        """The search; None before the call is answered, and if there was nothing to translate."""

    @override
    def begin(self, texts: Iterable[Sequence[Segment]], searches: Sequence[PlannedSearch]) -> None:
        """Check the sentence, and set the recorder of its search.

        Raises:
            InvalidInputError: There are several sentences, or too many tokens.
        """
        super().begin(texts, searches)
        if len(searches) > 1:
            raise _fault(f"must be one sentence, has {len(searches)}")
        sentence = searches[0].sentence
        if len(sentence.source_ids) > self._max_tokens:
            raise _fault(f"must have at most {self._max_tokens} source tokens, has {len(sentence.source_ids)}")
        sentence.options = replace(sentence.options, recorder=self._recorder)

    @override
    def add(self, searches: Iterable[tuple[int, PlannedSearch]], results: Iterable[SentenceResult]) -> None:
        searches, results = list(searches), list(results)
        super().add(searches, results)
        [(_, planned)], [result] = searches, results
        options = planned.sentence.options
        decoding = replace(options.decoding, no_repeat_ngram_size=self._recorder.no_repeat_ngram_size)
        self.search = RecordedSearch(
            source_ids=planned.sentence.source_ids,
            spans=planned.renderer.source_spans,
            options=replace(options, decoding=decoding),
            found=result.found,
            recorder=self._recorder,
        )


def _fault(description: str) -> InvalidInputError:
    return InvalidInputError([FieldViolation(field="contents[0]", description=description)])
