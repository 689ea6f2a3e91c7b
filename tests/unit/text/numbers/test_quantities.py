"""Numbers of a text and of its translation are compared by their values."""

from __future__ import annotations

import pytest

from xuanzang.text.comparison import loses_number
from xuanzang.text.numbers.quantities import numbers_of

SAME = [
    ("He has 3 cats", "他有三只猫"),
    ("我有12,000元", "I have 12000 yuan"),
    ("3万人", "30,000 people"),
    ("2 billion people", "20亿人"),
    ("7:30 tomorrow", "明天七点半"),
    ("January 5, 2024", "2024年1月5日"),
    ("1.1 million", "110万"),
    ("90年代", "the 1990s"),
    ("第2次", "the second time"),
    ("他7点来", "He comes at 7:00"),
    ("三百零五", "305"),
    ("two thousand and five", "2005"),
    ("二〇二四年", "2024"),
    ("1个", "a piece"),
    ("49 英寸的 4K 电视", "a 49-inch 4k TV"),
    ("12,000 yuan", "1万2千元"),
    ("320 million people", "3亿2,000万人"),
    ("350 million people", "三亿五千万人"),
    ("25 trillion", "二十五万亿"),
    ("in the 1990s", "20世纪90年代"),
    ("1/2 cup", "半杯"),
    ("½ cup", "0.5杯"),
    ("50%", "五成"),
    ("7:30 pm", "19:30"),
    ("下午3点", "15:00"),
    ("$1.5M", "150万美元"),
    ("2 dozen", "24个"),
    ("3 km", "3千米"),
    ("a century", "100年"),
]
CHANGED = [
    ("He has 3 cats", "他有四只猫"),
    ("1000000000000", "100000000000"),
    ("五个", "15"),
    ("50元", "500 yuan"),
    ("3万人", "3,000 people"),
    ("12 13 14", "12 13"),
    ("150", "50"),
    ("他们来了", "40 of them came"),
    ("12,000 yuan", "1万3千元"),
    ("2 hours", "半小时"),
    ("3千克", "3,000 km"),
    ("7:30 am", "19:31"),
    ("$1.5M", "1.5亿"),
]


@pytest.mark.parametrize(("source", "target"), SAME)
def test_a_number_may_be_written_in_many_ways(source: str, target: str) -> None:
    assert not loses_number(source, target)
    assert not loses_number(target, source)


@pytest.mark.parametrize(("source", "target"), CHANGED)
def test_a_number_that_is_lost_changed_or_new_is_told(source: str, target: str) -> None:
    assert loses_number(source, target)
    assert loses_number(target, source)


def test_number_words_of_both_languages_are_read() -> None:
    assert {305000, 5} <= numbers_of("three hundred and five thousand, then five")
    assert {35_000_000, 3} <= numbers_of("第三季度三千五百万")
