from __future__ import annotations

from collections import Counter

import pytest

from xuanzang.model.data.corpus import Pair
from xuanzang.model.data.filters import (
    PairFilter,
    clean_pairs,
    length_ratio,
    loses_numbers,
    plain_typography,
    repeat_key,
    script_share,
    twin_key,
)


@pytest.mark.parametrize(
    ("pair", "fault"),
    [
        (Pair("猫", "cat"), None),
        (Pair("", "cat"), "empty"),
        (Pair("猫", ""), "empty"),
        (Pair("same", "same"), "untranslated"),
        (Pair("猫" * 21, "cat"), "too long"),
        (Pair("猫", "c" * 21), "too long"),
        (Pair("猫" * 20, "c"), "length ratio"),
        (Pair("猫", "a cat is here now"), None),
        (Pair("a cat", "the cat"), "other script"),
        (Pair("猫", "кошка"), "other script"),
        (Pair("用 git", "use git"), None),
        (Pair("错误 C3731", "Error C3732"), "number lost"),
    ],
)
def test_each_filter_gives_its_reason(pair: Pair, fault: str | None) -> None:
    pair_filter = PairFilter(max_characters=20, max_length_ratio=6, min_script_share=0.2, languages=("zh-Hans", "en"))
    assert pair_filter.fault(pair) == fault


def test_the_length_ratio_is_the_same_from_either_side_and_kind_to_short_texts() -> None:
    assert length_ratio(Pair("猫" * 10, "c" * 70)) == length_ratio(Pair("c" * 70, "猫" * 10)) == 2
    assert length_ratio(Pair("c", "c" * 12)) == 2


@pytest.mark.parametrize(
    ("text", "language", "share"),
    [("猫cat", "zh", 0.25), ("猫cat", "en", 0.75), ("123 %", "zh", 1.0), ("кот", "ru", 1.0), ("été", "fr", 1.0)],
)
def test_the_script_share_counts_letters_of_scripts_that_are_known(text: str, language: str, share: float) -> None:
    assert script_share(text, language) == share


@pytest.mark.parametrize(
    ("pair", "loses"),
    [
        (Pair("30人", "30 people"), False),
        (Pair("30人", "thirty people"), True),
        (Pair("3人", "three people"), False),
        (Pair("1,200人", "1200 people"), False),
        (Pair("1200人", "1,200 people"), False),
        (Pair("人", "30 people"), False),
    ],
)
def test_a_number_of_two_digits_must_be_in_the_target(pair: Pair, loses: bool) -> None:
    assert loses_numbers(pair) == loses


def test_pairs_that_differ_in_case_and_punctuation_alone_are_near_duplicates() -> None:
    assert repeat_key(Pair("打开文件。", "Open the file.")) == repeat_key(Pair("打开 文件", "open the File"))
    assert repeat_key(Pair("第1页", "Page 1")) != repeat_key(Pair("第2页", "Page 2"))
    assert repeat_key(Pair("+", "plus")) != repeat_key(Pair("-", "plus"))


@pytest.mark.parametrize(
    "twin",
    ["他說：「這個 很好」", "他说:“这个很好”", "他说这个很好", "他 說 這個 很 好 ！"],
)
def test_texts_that_a_model_reads_alike_are_twins(twin: str) -> None:
    assert twin_key(twin) == twin_key("他说：“这个很好。”")
    assert twin_key("Ｔｏｍ has １２ cats") == twin_key("tom has 12 cats.")


@pytest.mark.parametrize(("one", "other"), [("第1页", "第2页"), ("他说", "她说"), ("+", "-"), ("Tom", "Tim")])
def test_texts_that_say_different_things_are_no_twins(one: str, other: str) -> None:
    assert twin_key(one) != twin_key(other)


def test_plain_typography_has_one_form_for_quotes_dots_and_spaces() -> None:
    assert plain_typography(" “It’s\u00a0late…”  he\u200b said ") == '"It\'s late..." he said'


def test_cleaning_drops_bad_pairs_and_repeats_and_counts_both() -> None:
    pairs = [Pair("猫", "a"), Pair("猫", "a"), Pair("猫。", "A"), Pair("狗", "dog"), Pair("狗", "hound"), Pair("", "x")]
    seen: set[bytes] = set()
    counts: Counter[str] = Counter()
    assert list(clean_pairs(pairs, PairFilter(), seen, counts)) == [pairs[0], pairs[3], pairs[4]]
    assert counts == {"kept": 3, "duplicate": 1, "near duplicate": 1, "empty": 1}
    assert list(clean_pairs(pairs[3:4], PairFilter(), seen, counts)) == [], "what one call has seen, the next one knows"
