from __future__ import annotations

from xuanzang.server.engine.calls.record import CallRecord
from xuanzang.server.engine.scheduling.request import SentenceTimeline


def timeline(steps: int) -> SentenceTimeline:
    return SentenceTimeline(
        queued_at=1.0, taken_at=2.0, encoded_at=3.0, finished_at=4.0, worker=0, batch_size=1, steps=steps
    )


def test_searches_are_found_by_text_and_in_the_order_of_its_sentences() -> None:
    record = CallRecord()
    # Openings of all sentences first, then what continues them.
    for number, (text, sentence) in enumerate([(0, 0), (0, 1), (2, 0), (0, 0), (0, 0), (2, 0)], start=1):
        record.found.append((text, sentence, timeline(number)))
    steps = [[(sentence, each.steps) for sentence, each in record.of_text(text)] for text in range(3)]
    assert steps == [[(0, 1), (0, 4), (0, 5), (1, 2)], [], [(0, 3), (0, 6)]]
