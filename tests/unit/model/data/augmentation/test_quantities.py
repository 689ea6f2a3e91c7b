"""Quantities have one value in all of their forms."""

from __future__ import annotations

import random

import pytest
from numbers_right import numbers_in

from xuanzang.model.data.augmentation.naming import NamingMaker, chinese_numeral, frames_of
from xuanzang.model.data.corpus import Pair


@pytest.mark.parametrize(
    ("value", "numeral"),
    [
        (0, "零"),
        (10, "十"),
        (22, "二十二"),
        (200, "两百"),
        (1001, "一千零一"),
        (1010, "一千零一十"),
        (2005, "两千零五"),
        (10050, "一万零五十"),
        (105000, "十万五千"),
        (3200000, "三百二十万"),
        (250000000, "两亿五千万"),
        (100050000, "一亿零五万"),
        (3 * 10**12, "三万亿"),
    ],
)
def test_numbers_are_spelt_in_chinese(value: int, numeral: str) -> None:
    assert chinese_numeral(value) == numeral


def test_every_spelt_number_is_read_as_itself() -> None:
    generator = random.Random(0)
    for value in [*range(1, 3000), *(generator.randrange(10 ** generator.randint(4, 15)) for _ in range(3000))]:
        [found] = numbers_in(chinese_numeral(value), "zh")
        assert found == value, chinese_numeral(value)


@pytest.mark.parametrize("written", [0, 1, None])
def test_sentences_of_numbers_say_the_same_in_both_languages(written: int | None) -> None:
    maker = NamingMaker(random.Random(0), [], frames_of("numbers"))
    pairs = [maker.pair(written) for _ in range(4000)]
    differing = [pair for pair in pairs if numbers_in(pair.source, "zh") != numbers_in(pair.target, "en")]
    # 三千克 are 3 kilograms or 3,000 grams, and 三亚 is a town.
    assert [pair for pair in differing if not any(word in pair.source for word in ("千", "三亚"))] == []
    assert len(differing) < 20


def test_what_is_written_has_one_form() -> None:
    chinese = NamingMaker(random.Random(0), [], "{amount} = {amount}\n{percent} = {percent}")
    pairs: list[Pair] = [chinese.pair(written=0) for _ in range(2000)]
    assert not any("百分之" in pair.source or set(pair.source) & set("十百千") for pair in pairs)
    assert any("per cent" in pair.target for pair in pairs)
