from __future__ import annotations

import pytest

from xuanzang.server.engine.calls.journal import Journal
from xuanzang.server.engine.decoding.hypotheses import SearchOptions, Sentence
from xuanzang.server.engine.scheduling.call import SentenceTimeline
from xuanzang.server.engine.scheduling.rendering import SentenceRenderer
from xuanzang.server.engine.scheduling.request import PlannedSearch, SentenceResult
from xuanzang.server.engine.text.codec import Segment
from xuanzang.server.engine.types import DecodingOptions

OPTIONS = DecodingOptions(
    beam_size=1, num_hypotheses=1, length_penalty=0.0, min_target_length=0, max_target_length=None
)
SENTENCE, BLANK = Segment(text="a", source_ids=(1, 2)), Segment(text=" ", source_ids=())


def search(limit: int) -> PlannedSearch:
    options = SearchOptions(decoding=OPTIONS, max_target_length=limit)
    renderer = SentenceRenderer(codec=None)  # type: ignore[arg-type]
    return PlannedSearch(Sentence(source_ids=[1], options=options), renderer)


def result(steps: int) -> SentenceResult:
    timeline = SentenceTimeline(
        queued_at=1.0, taken_at=2.0, encoded_at=3.0, finished_at=4.0, worker=0, batch_size=1, steps=steps
    )
    return SentenceResult([], [], timeline)


def steps_by_sentence(journal: Journal, text: int) -> list[tuple[int, int]]:
    return [(record.sentence_index, record.timeline.steps) for record in journal.of_text(text)]


def test_searches_are_found_by_text_and_in_the_order_of_its_sentences() -> None:
    journal = Journal()
    journal.begin([[SENTENCE, BLANK, SENTENCE], [BLANK], [SENTENCE]], [search(10), search(20), search(30)])
    # Openings of all sentences first, then what continues them.
    journal.add(enumerate([search(10), search(20), search(30)]), map(result, (1, 2, 3)))
    journal.add([(0, search(10)), (0, search(10)), (2, search(30))], map(result, (4, 5, 6)))
    assert steps_by_sentence(journal, 0) == [(0, 1), (0, 4), (0, 5), (1, 2)]
    assert steps_by_sentence(journal, 1) == []
    assert steps_by_sentence(journal, 2) == [(0, 3), (0, 6)]
    assert [record.max_target_length for record in journal.of_text(0)] == [10, 10, 10, 20]


def test_a_sentence_without_a_search_is_noticed() -> None:
    with pytest.raises(ValueError, match="2 sentences have 1 searches"):
        Journal().begin([[SENTENCE, SENTENCE]], [search(10)])
