from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xuanzang.server.engine.text.long_sentences import is_forced_cut, split_at_pauses, split_long_sentence

# Letters, marks on them, pauses and scripts that meet without a space.
TEXTS = st.text(
    alphabet=st.one_of(st.sampled_from("，、,。 \n\t\u3000我爱你aA1é\u0301\ufe0f"), st.characters(codec="utf-8")),
    max_size=120,
)


@given(TEXTS, st.integers(min_value=1, max_value=30))
def test_stretches_join_to_the_sentence_and_are_short_if_they_can_be_cut(text: str, limit: int) -> None:
    sentence = text.strip()
    parts = split_at_pauses(sentence, len, limit)
    assert "".join(parts) == sentence
    assert all(part.isspace() or len(part) <= limit or len(part.split()) == 1 for part in parts)


@given(TEXTS, st.integers(min_value=20, max_value=40))
def test_nothing_is_too_long_but_white_space_and_words_of_ascii(text: str, limit: int) -> None:
    sentence = text.strip()
    parts = split_long_sentence(sentence, len, limit)
    assert "".join(parts) == sentence
    assert all(part.isspace() or len(part) <= limit or part.isascii() for part in parts)


@given(TEXTS, st.integers(min_value=1, max_value=40))
def test_no_cut_is_forced_where_pauses_suffice(text: str, limit: int) -> None:
    parts = split_at_pauses(text.strip(), len, limit)
    assert not any(is_forced_cut(left, right) for left, right in itertools.pairwise(parts))


def test_a_long_sentence_is_cut_after_commas_first() -> None:
    assert split_long_sentence("今天下雨，我没带伞，所以湿了。", len, 10) == ["今天下雨，我没带伞，", "所以湿了。"]


def test_a_long_clause_without_commas_is_cut_at_white_space_which_stays() -> None:
    assert split_long_sentence("one two  three, four", len, 9) == ["one two", "  ", "three,", " ", "four"]


def test_a_comma_within_a_number_is_no_place_to_cut() -> None:
    assert split_long_sentence("1,000,000", len, 4) == ["1,000,000"]


def test_a_long_word_is_cut_between_scripts_and_then_evenly() -> None:
    assert split_long_sentence("打开GitHub的网页看看", len, 8) == ["打开GitHub", "的网页看看"]
    assert split_long_sentence("今天天气很好我们去公园玩", len, 8) == ["今天天气很好", "我们去公园玩"]


@pytest.mark.parametrize("word", ["QUJD" * 10, "https://example.com/" + "a" * 40])
def test_a_long_word_of_ascii_stays_whole(word: str) -> None:
    assert split_long_sentence(f"请看{word}谢谢", len, 12) == ["请看", word, "谢谢"]


@given(st.text(alphabet="éàख", min_size=10, max_size=60))
def test_a_character_keeps_its_marks(text: str) -> None:
    marked = "".join(character + "\u0301" for character in text)
    assert not any(part.startswith("\u0301") for part in split_long_sentence(marked, len, 6))


def test_stretches_stay_short_when_joined_atoms_have_more_tokens_than_their_sum() -> None:
    def superadditive(text: str) -> int:
        return len(text) if len(text) <= 4 else 2 * len(text)

    assert split_long_sentence("a, b, c, d,", superadditive, 12) == ["a, b,", " ", "c, d,"]


@pytest.mark.parametrize("marks", [1, 40])
def test_marks_in_absurd_numbers_end_no_search(marks: int) -> None:
    text = "我" + "\u0301" * marks + "你"
    parts = split_long_sentence(text, len, 4)
    assert "".join(parts) == text
    assert all(len(part) <= 4 + 16 for part in parts)
