from __future__ import annotations

import itertools
import re
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xuanzang.text.sentences import (
    Joiner,
    before_seen,
    is_copied,
    is_forced_cut,
    is_plain,
    lowered,
    seen_text,
    split_at_pauses,
    split_long_sentence,
    split_sentences,
    with_unbroken,
)
from xuanzang.text.spans.blanks import has_blanks, has_odd_words
from xuanzang.text.spans.carrying import is_no_language

TEXTS = st.text(
    alphabet=st.one_of(st.sampled_from("。！？；…!?.,，、\"'”」)( \n\r\t\u3000我a1A"), st.characters(codec="utf-8"))
)

ENGLISH = st.lists(st.text(alphabet="aBz0,'-.", min_size=1, max_size=6), min_size=1, max_size=5).map(" ".join)
CHINESE = st.text(alphabet="我一9aZ，、。？\u3007", min_size=1, max_size=12)


@given(st.one_of(ENGLISH, CHINESE, TEXTS))
def test_a_plain_text_is_one_sentence_with_nothing_to_copy_or_carry(text: str) -> None:
    needs_care = is_no_language(text) or has_blanks(text) or has_odd_words(text) or is_copied(text)
    if is_plain(text):
        assert not needs_care
        assert split_sentences(text) == [seen_text(text)] == [text]


@pytest.mark.parametrize(
    "text",
    ["我有一只猫。", "好", "If the file does not exist, an error is returned.", "I don't know.", "他2024年来，我不在"],
)
def test_ordinary_sentences_are_plain(text: str) -> None:
    assert is_plain(text)


@pytest.mark.parametrize(
    "text", ["", "cat", "a  b.", "3 cats.", "Hi. Go.", "{a} b.", "a b.\n", "好。好", "我😀", "かな"]
)
def test_texts_that_need_a_closer_look_are_not_plain(text: str) -> None:
    assert not is_plain(text)


@given(TEXTS)
def test_pieces_join_to_the_text_and_sentences_have_no_white_space_at_their_ends(text: str) -> None:
    pieces = split_sentences(text)
    assert "".join(pieces) == text
    assert all(piece.isspace() or piece == piece.strip() != "" for piece in pieces)


@given(TEXTS, st.lists(st.tuples(st.integers(0, 30), st.integers(1, 10)), max_size=3))
def test_places_that_are_not_broken_are_within_one_sentence_of_the_same_line(
    text: str, places: list[tuple[int, int]]
) -> None:
    unbroken, end = [], 0
    for start, length in places:
        unbroken.append((end + start, end + start + length))
        end = unbroken[-1][1]
    pieces = with_unbroken(split_sentences(text), unbroken)
    assert "".join(pieces) == text
    borders = set(accumulate(map(len, pieces)))
    if len(text.splitlines()) == 1:
        assert not any(borders & set(range(start + 1, min(end, len(text)))) for start, end in unbroken)


def test_marks_of_a_place_end_no_sentence() -> None:
    text = "我用Yahoo! Japan。你呢？我在Yahoo!上班。"
    names = [match.span() for match in re.finditer("Yahoo! Japan|Yahoo!", text)]
    assert with_unbroken(split_sentences(text), names) == ["我用Yahoo! Japan。", "你呢？", "我在Yahoo!上班。"]
    assert with_unbroken(["At Yahoo!", " ", "He left."], [(3, 9)]) == ["At Yahoo!", " ", "He left."]


@pytest.mark.parametrize(
    "sentences",
    [
        ["我有一只猫。", "你呢？", "好！"],
        ["他说：“你好。”", "然后走了。"],
        ['他说："你好。"', "然后走了。"],
        ["他来了。", '"你好"是他说的。'],
        ["真的吗？！", "（当然。）", "那就这样……", "好吧；", "再见"],
        ["你好!", "再见?", "好"],
        ["I came.", " ", "He left.", " ", "“Why?”", " ", "Nobody knows."],
        ["Mr. Smith met J. R. Tolkien at 3 p. m. in the U.S. Army."],
        ["Pi is 3.14 and e is 2. Those are numbers."],
        ["Open example.com/a?b=1!c and run a.out now."],
        ["Wait... what did 'Stop!' he said mean?"],
        ["第一行", "\r\n\r\n", "第二行", "\n", "Mr.", "\n", "3."],
        ["  ", "两边有空白。", "\u3000 \n"],
        ["-", " ", "打开文件", "\n  ", "*", " ", "保存。"],
        ["1.", " ", "打开", "\n", "12)", " ", "保存", "\n", "①", "关闭"],
        ["##", " ", "安装", "\n", ">", " ", "-", " ", "[x]", " ", "买牛奶"],
        ["★★★", " ", "很好", "\n", "😀", "真开心", "❤️🎂", " ", "🙏", "\n", "谢谢🙏再见。", "🙏"],
        ["-5 度", "\n", "1.5 公里", "\n", "#1 很好", "\n", "3.0 版", "\n", "-", " ", "-"],
    ],
)
def test_text_is_cut_where_a_reader_would_cut_it(sentences: list[str]) -> None:
    assert split_sentences("".join(sentences)) == sentences


def join(*pieces: str, spaced: bool) -> str:
    joiner = Joiner(spaced=spaced)
    return "".join(joiner.add(piece) for piece in pieces)


def test_a_space_is_added_between_sentences_only_where_there_was_none() -> None:
    assert join("A.", "B.", "\n", "C.", " ", "D.", spaced=True) == "A. B.\nC. D."
    assert join("甲。", "乙。", "\n", "丙。", spaced=False) == "甲。乙。\n丙。"


def test_spaces_between_sentences_are_left_out_where_the_language_has_none() -> None:
    assert join("甲。", " ", "乙！", "  ", "丙", " ", "丁。", " \n", "戊。", spaced=False) == "甲。乙！丙 丁。 \n戊。"
    assert join(" ", "甲（乙）", " ", "API.", " ", "丙。", spaced=False) == " 甲（乙）API. 丙。"
    assert join("A。", " ", "B。", spaced=True) == "A。 B。"


def test_spaces_at_the_end_of_a_text_are_kept() -> None:
    joiner = Joiner(spaced=False)
    assert joiner.add("甲。") + joiner.add(" ", is_last=True) == "甲。 "


def test_a_sentence_translated_to_nothing_adds_no_space() -> None:
    assert join("A.", "", "B.", spaced=True) == "A. B."


def test_what_extends_a_piece_is_joined_to_it_and_decides_what_follows() -> None:
    joiner = Joiner(spaced=True)
    assert joiner.add("A") + joiner.extend(" b. ") + joiner.extend("") + joiner.add("C") == "A b. C"


@pytest.mark.parametrize(
    ("text", "small"),
    [
        ("PLEASE DO NOT ENTER!", "Please do not enter!"),
        ("“I’M IN ROOM B12 WITH A FRIEND, AND I WAIT.”", "“I’m in room B12 with a friend, and I wait.”"),
        *((text, text) for text in ("", "JOHN SMITH", "USB, HDMI, VGA", "SELECT NAME FROM USERS WHERE ID_1 = 2;")),
    ],
)
def test_sentences_in_capitals_are_read_in_small_letters(text: str, small: str) -> None:
    assert lowered(text) == small


@pytest.mark.parametrize(
    ("part", "copied"),
    [
        *((part, True) for part in ("-----", "| --- | --- |", "═════", "——————", "...", "→", " ", "1.", "😀")),
        *((part, False) for part in ("12:30", "……", "。", "- a", "§", "a-b", "第一", "Q&A", "A & B", "I < 3 cats")),
        *((part, True) for part in ("x = y + 2", "a < b && c > d © …")),
    ],
)
def test_what_has_no_words_is_copied(part: str, *, copied: bool) -> None:
    assert is_copied(seen_text(part)) is copied


@pytest.mark.parametrize(
    "character", ["\u200f", "\u0301", "\u200b", "\ufeff", "\ue000", "\u0e31", "\x07", "\U000e0041"]
)
@pytest.mark.parametrize("count", [1, 5, 20_000])
def test_what_nobody_sees_is_copied(character: str, count: int) -> None:
    assert is_copied(seen_text(character * count))
    assert is_copied(seen_text("—" + character * count)) is (seen_text("—" + character * count) == "—")


@pytest.mark.parametrize("text", ["สวัสดีครับ", "हिन्दी में", "नमस्ते", "मैं", "é", "می‌خواهم"])
def test_letters_keep_their_marks(text: str) -> None:
    assert seen_text(text) == text
    assert not is_copied(seen_text(text))


MARKED = "a" + "\u0301" * 500 + "b\u0301\tc" + "\u200f" * 9


def test_further_marks_of_a_letter_do_not_count() -> None:
    assert seen_text(MARKED) == "a" + "\u0301" * 4 + "b\u0301\tc"


@pytest.mark.parametrize("text", ["👨\u200d👩\u200d👧 家。😀😀😀😀😀", "❤\ufe0f\u200d🔥 一二三…………"])
def test_pictures_that_formats_join_stay_joined(text: str) -> None:
    assert seen_text(text) == text


def test_what_nobody_sees_belongs_to_the_letter_before_it() -> None:
    assert before_seen(MARKED, [(0, 1), (1, 5), (5, 6), (3, 3), (8, 9)]) == [
        (0, 1),
        (1, 501),
        (501, 502),
        (3, 3),
        (504, len(MARKED)),
    ]


@given(st.text(alphabet=st.sampled_from("ab \t\u0301\u0302\u200f")))
def test_each_character_that_is_seen_is_found_in_the_text(text: str) -> None:
    seen = seen_text(text)
    spans = before_seen(text, [(place, place + 1) for place in range(len(seen))])
    assert "".join(text[start] for start, _ in spans) == seen
    assert all(left[1] == right[0] for left, right in pairwise(spans))


# Letters, marks on them, pauses and scripts that meet without a space.
LONG_TEXTS = st.text(
    alphabet=st.one_of(st.sampled_from("，、,。 \n\t\u3000我爱你aA1é\u0301\ufe0f"), st.characters(codec="utf-8")),
    max_size=120,
)


@given(LONG_TEXTS, st.integers(min_value=1, max_value=30))
def test_stretches_join_to_the_sentence_and_are_short_if_they_can_be_cut(text: str, limit: int) -> None:
    sentence = text.strip()
    parts = split_at_pauses(sentence, len, limit)
    assert "".join(parts) == sentence
    assert all(part.isspace() or len(part) <= limit or len(part.split()) == 1 for part in parts)


@given(LONG_TEXTS, st.integers(min_value=20, max_value=40))
def test_nothing_is_too_long_but_white_space_and_words_of_ascii(text: str, limit: int) -> None:
    sentence = text.strip()
    parts = split_long_sentence(sentence, len, limit)
    assert "".join(parts) == sentence
    assert all(part.isspace() or len(part) <= limit or part.isascii() for part in parts)


@given(LONG_TEXTS, st.integers(min_value=1, max_value=40))
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
