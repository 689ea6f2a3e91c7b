from __future__ import annotations

import pytest

from xuanzang.text.numbers.losses import lost_amounts, may_have_amounts, new_numbers


@pytest.mark.parametrize(
    ("source", "target", "lost"),
    [
        ("他出生于一九八五年。", "He was born in 19855.", "1985"),
        ("投资20亿元。", "An investment of 2 million yuan.", "2 billion yuan"),
        ("投资20亿人民币。", "An investment of 2 billion yards.", "2 billion yuan"),
        ("我们花一万二千元买了这辆车。", "We bought this car for 12,000.", "12,000 yuan"),
        ("限速是一百二十公里。", "The limit is 12 kilometers.", "120"),
        ("20多万人", "over 2 million people", "200,000"),
        ("我该付10000日元。", "I should pay 1,000 yen.", "10000 yen"),
        ("损失高达二百万美元。", "The loss reached $20,000.", "$2 million"),
        ("1969年9月", "1969", "September"),
        ("使用 Vue 2 的经验", "experience with Vue", "Vue 2"),
    ],
)
def test_an_amount_that_english_lacks_is_told_with_its_writing(source: str, target: str, lost: str) -> None:
    [writings] = lost_amounts(source, target, writes_chinese=False)
    assert writings[0] == lost


@pytest.mark.parametrize(
    ("source", "target", "lost"),
    [
        ("Price: $19.99 for 5 items", "价格：19.99，5 个物品", "19.99美元"),
        ("We know of 100 billion galaxies.", "我们知道100亿个星系。", "1000亿"),
        ("Flight 333 to Boston", "飞往波士顿的航班", "333"),
        ("£5 each", "每个", "5英镑"),
    ],
)
def test_an_amount_that_chinese_lacks_is_told_with_its_writing(source: str, target: str, lost: str) -> None:
    [writings] = lost_amounts(source, target, writes_chinese=True)
    assert writings[0] == lost


@pytest.mark.parametrize(
    ("chinese", "english"),
    [
        ("公司卖出了42万辆汽车。", "The company sold 420 thousand cars."),
        ("四十二万人", "420,000 people"),
        ("共有20亿。", "There are two billion."),
        ("我卖了五十万。", "I sold half a million."),
        ("今天是我十六岁的生日。", "Today is my sixteenth birthday."),
        ("他三十岁生日。", "His thirtieth birthday."),
        ("他付了100美元。", "He paid 100 dollars."),
        ("50千比特", "50 kilobits"),
        ("3千字节", "3 kilobytes"),
        ("晚上7点见。", "See you at seven."),
        ("2026年11月27日", "November 27, 2026"),
    ],
)
def test_amounts_of_the_same_value_are_kept_in_both_directions(chinese: str, english: str) -> None:
    assert not lost_amounts(chinese, english, writes_chinese=False)
    assert not lost_amounts(english, chinese, writes_chinese=True)


@pytest.mark.parametrize(
    "source",
    [
        # Parts of names, hours, telephones; and numerals that are none, or are not exact.
        *(
            "H1N1",
            "O 2",
            "+2级",
            "COVID-19",
            "v1.2.3",
            "#5",
            "Room 3-12",
            "八点四十五了。",
            "我1米9。",
            "电话是62 345 678",
            "二十分",
        ),
        *("九十一样", "十几个人", "几百万人", "三四个", "三千米", "一个苹果", "六九二二六七七", "第二十一", "1 apple"),
    ],
)
def test_what_is_no_amount_is_never_lost(source: str) -> None:
    assert not lost_amounts(source, "nothing", writes_chinese=False)


def test_only_digits_and_several_numerals_are_looked_at() -> None:
    assert [may_have_amounts(text) for text in ("5", "５", "十二", "one", "一个", "")] == [True] * 3 + [False] * 3


def test_new_numbers_are_those_that_the_source_lacks() -> None:
    assert new_numbers("损失二百万美元。", "The loss reached $2 million, up to $20,000.") == 1
    assert new_numbers("损失二百万美元。", "The loss reached 2,000,000 dollars.") == 0
    assert new_numbers("超过30多万人", "over 300,000 people") == 0
