from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xuanzang.server.bundles.repository import load_bundle
from xuanzang.server.engine.calls.assembly import assemble
from xuanzang.server.engine.calls.text_streamer import Progress
from xuanzang.server.engine.text.codec import Piece, TextCodec
from xuanzang.server.engine.types import FinishReason, Hypothesis


@pytest.fixture(scope="session")
def codec(repository_template: Path) -> TextCodec:
    return TextCodec(load_bundle(repository_template / "small" / "1"))


def hypothesis(text: str) -> list[Hypothesis]:
    return [Hypothesis(text=text, score=0.0, token_count=1, finish_reason=FinishReason.END_OF_SENTENCE)]


def pieces_of(parts: Sequence[str]) -> list[Piece]:
    return [Piece(text=part, source_ids=() if part.isspace() else (5, 2)) for part in parts]


texts = st.text(alphabet="ab é🐈", max_size=8)
events = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 8), st.booleans()), max_size=30
)  # sentence, characters known, whether it is done


@given(st.lists(texts, min_size=4, max_size=4), events, st.permutations(range(4)))
def test_what_is_told_in_any_order_of_events_is_at_every_time_a_beginning_of_the_text(
    codec: TextCodec, translated: list[str], happens: list[tuple[int, int, bool]], ends: list[int]
) -> None:
    pieces = pieces_of([" ", "A.", "B.", "\n", "C.", "D.", "\n "])
    [whole] = assemble(pieces, iter([hypothesis(text) for text in translated]), codec)
    told: list[str] = []
    progress = Progress(pieces, codec, told.append)
    known, done = [0] * 4, [False] * 4
    for position, length, finished in [*happens, *((end, 8, True) for end in ends)]:
        if done[position] or (length <= known[position] and not finished):
            continue
        known[position], done[position] = length, finished
        if finished:
            progress.finished(position, hypothesis(translated[position]))
        else:
            progress.begun(position, translated[position][:length])
        assert whole.text.startswith("".join(told))
    assert "".join(told) == whole.text
    assert all(told)


def test_a_character_is_told_when_all_of_its_bytes_are_there(codec: TextCodec) -> None:
    told: list[str] = []
    progress = Progress(pieces_of(["A."]), codec, told.append)
    progress.begun(0, "a \ufffd")
    progress.begun(0, "a \ufffd\ufffd")
    progress.begun(0, "a 🐈")
    assert told == ["a ", "🐈"]


def test_a_sentence_is_not_told_before_those_ahead_of_it(codec: TextCodec) -> None:
    told: list[str] = []
    progress = Progress(pieces_of(["A.", "B."]), codec, told.append)
    progress.finished(1, hypothesis("b."))
    assert told == []
    progress.begun(0, "a")
    assert told == ["a"]
    progress.finished(0, hypothesis("a."))
    assert "".join(told) == "a. b."


def test_nothing_is_told_of_a_text_without_sentences(codec: TextCodec) -> None:
    told: list[str] = []
    Progress(pieces_of([" ", "\n"]), codec, told.append).begun(0, "never")
    assert told == []
