from __future__ import annotations

import pytest

from xuanzang.text.numbers.amounts import MAX_CHARACTERS, in_chinese, in_english


@pytest.mark.parametrize(
    ("chinese", "english"),
    [
        ("42万", "420,000"),
        ("四十二万", "420,000"),
        ("1,234万", "12.34 million"),
        ("20亿元", "2 billion yuan"),
        ("人民币20亿元", "2 billion yuan"),
        ("一亿人民币", "100 million yuan"),
        ("3斤", "3 jin"),
        ("¥20亿", "¥2 billion"),
        ("$42万", "$420,000"),
        ("100美元", "$100"),
        ("五十美元", "$50"),
        ("300万欧元", "3 million euros"),
        ("3千米", "3 kilometers"),
        ("3000万千瓦", "30 million kilowatts"),
        ("三個小時", "three hours"),
        ("二十一", "twenty-one"),
        ("三百五十", "350"),
        ("百分之五", "5%"),
        ("百分之百", "100%"),
        ("百分之三点一四", "3.14%"),
        ("2008年", "2008"),
        ("二〇〇八年", "2008"),
        ("两千零八年", "2008"),
        ("三年", "three years"),
        ("一一〇", "110"),
    ],
)
def test_a_chinese_amount_is_written_in_english(chinese: str, english: str) -> None:
    assert in_english(chinese) == english


@pytest.mark.parametrize(
    "text",
    [
        *("42", "五六百", "五六", "一二三", "12,34万", "5万2", "三点五", "几百万", "20多万", "第42万", "-5万", "万一"),
        # A year or years; a day or one day; weeks or all around.
        *("20年", "1000年", "两千年", "08年", "一天", "四周"),
        *("$20亿元", "¥20亿美元", "百分之五元", "$5年", "3万 5万", "", "42万辆汽车", "一" * (MAX_CHARACTERS + 1)),
    ],
)
def test_a_chinese_text_with_other_words_or_readings_is_left_to_the_model(text: str) -> None:
    assert in_english(text) is None


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        ("one hundred and one", "一百零一"),
        ("Twenty-One", "二十一"),
        ("2 billion", "20亿"),
        ("1.5 million", "150万"),
        ("420 thousand", "42万"),
        ("500k", "50万"),
        ("half a million", "50万"),
        ("$2bn", "20亿美元"),
        ("$5M", "500万美元"),
        ("£2.5 million", "250万英镑"),
        ("5 million US dollars", "500万美元"),
        ("two hundred dollars", "两百美元"),
        ("two people", "两人"),
        ("42,000 people", "42,000人"),
        ("3 square meters", "3平方米"),
        ("5 percent", "5%"),
        ("two percent", "百分之二"),
    ],
)
def test_an_english_amount_is_written_in_chinese(english: str, chinese: str) -> None:
    assert in_chinese(english) == chinese


@pytest.mark.parametrize(
    "text",
    [
        *("42", "$5", "5M", "one", "one day", "a day", "and one", "50 pounds", "2 apples", "nineteen eighty-five"),
        *("1,00 million", "01 million", "$5 euros", "5 million percent", "two hundred apples", "", "two " * 40),
    ],
)
def test_an_english_text_with_other_words_or_readings_is_left_to_the_model(text: str) -> None:
    assert in_chinese(text) is None
