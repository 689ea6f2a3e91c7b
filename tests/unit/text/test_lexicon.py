from __future__ import annotations

import pytest

from xuanzang.text.lexicon import MAX_SOURCE_CHARACTERS, Lexicon

TO_CHINESE = Lexicon({"Hello": "你好", "May": "五月", "may": "可能", "I'm fine": "我很好"}, writes_chinese=True)
WITH_DATES = Lexicon({"January": "一月"}, writes_chinese=True)
TO_ENGLISH = Lexicon({"你好": "Hello", "猫": "cat"}, writes_chinese=False)


@pytest.mark.parametrize(
    ("sentence", "translation"),
    [
        ("Hello", "你好"),
        ("hello", "你好"),
        (" HELLO ", "你好"),
        ("hello!", "你好！"),
        ("HELLO?!!", "你好？！！"),
        ("Hello ?", "你好？"),
        ("Hello.", "你好。"),
        ("Ｈｅｌｌｏ！", "你好！"),
        ("May", "五月"),
        ("may", "可能"),
        ("I’m fine.", "我很好。"),
        ("(Hello)", "(你好)"),
        ("“hello!”", "“你好！”"),
    ],
)
def test_a_sentence_is_found_in_any_case_and_keeps_its_mark(sentence: str, translation: str) -> None:
    assert TO_CHINESE.translation(sentence) == translation


def test_a_word_stays_small_until_a_mark_makes_it_a_sentence() -> None:
    assert [TO_ENGLISH.translation(text) for text in ("猫", "猫。", "你好！", "你好?")] == [
        "cat",
        "Cat.",
        "Hello!",
        "Hello?",
    ]


@pytest.mark.parametrize(
    "sentence",
    ["", " ", "!", "Hello you", "Hello..", "(Hello", "((Hello))", "()", "Hello,", "Hell", "hello " * 10_000, "！"],
)
def test_any_other_sentence_is_left_to_the_model(sentence: str) -> None:
    assert TO_CHINESE.translation(sentence) is None


@pytest.mark.parametrize(
    ("date", "translation"),
    [
        ("Nov 27, 2026", "2026年11月27日"),
        ("Tuesday, nov. 3rd!", "11月3日星期二！"),
        ("Sat 5 of May", "5月5日星期六"),
        ("27 Sept. 2026.", "2026年9月27日。"),
        ("March 2025", "2025年3月"),
        ("Nov 42", None),
        ("Nov 5 apples", None),
    ],
)
def test_an_english_date_has_its_numbers_in_chinese(date: str, translation: str | None) -> None:
    assert WITH_DATES.translation(date) == translation
    assert TO_CHINESE.translation(date) is None


@pytest.mark.parametrize(
    ("text", "translation"),
    [
        ("Dec", "十二月"),
        ("Sep.", "九月"),
        ("Thurs.", "星期四"),
        ("one hundred and one!", "一百零一！"),
        ("(2 billion)", "(20亿)"),
        ("iPhone 15 Pro", "iPhone 15 Pro"),
        ("iPad Air 5!", "iPad Air 5！"),
        ("dec", None),
        ("Sun", None),
        ("GitHub", None),
        ("GitHub users", None),
        ("GitHub API", None),
        ("Galaxy", None),
    ],
)
def test_short_months_amounts_and_names_of_products_follow_rules(text: str, translation: str | None) -> None:
    assert WITH_DATES.translation(text) == translation
    assert TO_CHINESE.translation(text) is None


def test_chinese_amounts_follow_rules_where_the_lexicon_is_english() -> None:
    with_months = Lexicon({"一月": "January"}, writes_chinese=False)
    assert [with_months.translation(text) for text in ("42万", "二十一。", "“20亿元”", "两千零八年")] == [
        "420,000",
        "Twenty-one.",
        "“2 billion yuan”",
        "2008",
    ]
    assert TO_ENGLISH.translation("42万") is None


def test_an_entry_may_have_the_maximum_length() -> None:
    longest = "a" * MAX_SOURCE_CHARACTERS
    assert Lexicon({longest: "长"}, writes_chinese=True).translation(f"{longest}!") == "长！"
