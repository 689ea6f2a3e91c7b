from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xuanzang.server.bundles.repository import load_bundle
from xuanzang.server.engine.calls.rendering import SentenceResult
from xuanzang.server.engine.calls.results import TextStreamer, joined
from xuanzang.server.engine.models.loaded import open_codec
from xuanzang.server.engine.scheduling.request import SentenceTimeline
from xuanzang.server.engine.types import FinishReason, Hypothesis
from xuanzang.text.codec import Segment, TextCodec


@pytest.fixture(scope="session")
def codec(repository_template: Path) -> TextCodec:
    return open_codec(load_bundle(repository_template / "small" / "1"))


def hypothesis(text: str) -> list[Hypothesis]:
    return [Hypothesis(text=text, score=0.0, token_count=1, finish_reason=FinishReason.END_OF_SENTENCE)]


def result(text: str) -> SentenceResult:
    timeline = SentenceTimeline(
        queued_at=1.0, taken_at=2.0, encoded_at=3.0, finished_at=4.0, worker=0, batch_size=1, steps=5
    )
    return SentenceResult([], hypothesis(text), timeline)


def segments_of(parts: Sequence[str]) -> list[Segment]:
    return [Segment(text=part, source_ids=() if part.isspace() else (5, 2)) for part in parts]


texts = st.text(alphabet="ab é🐈", max_size=8)
events = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 8), st.booleans()), max_size=30
)  # sentence, characters known, whether it is done


@given(st.lists(texts, min_size=4, max_size=4), events, st.permutations(range(4)))
def test_any_order_of_events_emits_a_growing_beginning_of_the_text(
    codec: TextCodec, translated: list[str], happens: list[tuple[int, int, bool]], ends: list[int]
) -> None:
    segments = segments_of([" ", "A.", "B.", "\n", "C.", "D.", "\n "])
    [whole] = joined(segments, iter([hypothesis(text) for text in translated]), codec)
    emitted: list[str] = []
    streamer = TextStreamer(segments, codec, emitted.append)
    known, done = [0] * 4, [False] * 4
    for position, length, finished in [*happens, *((end, 8, True) for end in ends)]:
        if done[position] or (length <= known[position] and not finished):
            continue
        known[position], done[position] = length, finished
        if finished:
            streamer.on_result(position, result(translated[position]))
        else:
            streamer.on_prefix(position, translated[position][:length])
        assert whole.text.startswith("".join(emitted))
    assert "".join(emitted) == whole.text
    assert all(emitted)


def test_a_character_is_emitted_once_all_of_its_bytes_are_there(codec: TextCodec) -> None:
    emitted: list[str] = []
    streamer = TextStreamer(segments_of(["A."]), codec, emitted.append)
    streamer.on_prefix(0, "a \ufffd")
    streamer.on_prefix(0, "a \ufffd\ufffd")
    streamer.on_prefix(0, "a 🐈")
    assert emitted == ["a ", "🐈"]


def test_a_text_without_sentences_emits_nothing(codec: TextCodec) -> None:
    emitted: list[str] = []
    TextStreamer(segments_of([" ", "\n"]), codec, emitted.append).on_prefix(0, "never")
    assert emitted == []
