"""Sentences of names, dates, numbers and money say the same in both languages."""

from __future__ import annotations

import random
import re

import pytest

from xuanzang.model.data.augmentation.naming import NamingMaker, Topic, frames_of
from xuanzang.model.data.augmentation.pairs import Shares, augment
from xuanzang.model.data.corpus import Pair

QUOTATIONS = [
    Pair("我有一只猫。", "I have a cat."),
    Pair("你好", "Hello"),
    Pair("下雨了。回家吧。", "It rains. Go home."),
]
UNITS = {"万亿": 10**12, "亿": 10**8, "万": 10**4, "trillion": 10**12, "billion": 10**9, "million": 10**6, "": 1}
MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]


def made(written: int, count: int = 4000, seed: int = 0, topic: Topic = "naming") -> list[Pair]:
    maker = NamingMaker(random.Random(seed), QUOTATIONS, frames_of(topic))
    return [maker.pair(written) for _ in range(count)]


def amounts(text: str) -> set[int]:
    """Return the numbers that are followed by a unit, as integers."""
    found = re.findall(r"(\d[\d,]*(?:\.\d+)?) ?(万亿|亿|万|trillion|billion|million)", text)
    return {round(float(digits.replace(",", "")) * UNITS[unit]) for digits, unit in found}


@pytest.mark.parametrize("written", [0, 1])
def test_no_slot_is_left_and_each_language_keeps_to_its_script(written: int) -> None:
    for chinese, english in made(written):
        assert not re.search(r"[{}|=]", chinese + english)
        assert re.search(r"[\u4e00-\u9fff]|^\d", chinese)
        assert not re.search(r"[\u4e00-\u9fff]", english)


@pytest.mark.parametrize("written", [0, 1])
def test_large_numbers_have_the_same_value_in_both_languages(written: int) -> None:
    pairs = [pair for pair in made(written) if re.search("million|billion|trillion", pair[1])]
    assert len(pairs) > 400
    assert all(amounts(english) <= amounts(chinese) for chinese, english in pairs)


def test_dates_name_the_same_day() -> None:
    pattern = re.compile(r"(\d{4})年(\d+)月(\d+)日")
    dated = [pair for pair in made(1) if pattern.search(pair[0])]
    assert len(dated) > 200
    for chinese, english in dated:
        for year, month, day in pattern.findall(chinese):
            assert f"{MONTHS[int(month) - 1]} {day}, {year}" in english


def test_only_whole_sentences_are_quoted() -> None:
    text = "\n".join(chinese + english for chinese, english in made(1))
    assert "我有一只猫" in text
    assert "cat" in text
    assert "你好：" not in text
    assert "It rains" not in text


def test_both_directions_get_sources_and_targets_of_their_languages() -> None:
    shares = Shares(copying=0, passing=0, naming=0.5)
    for languages, pairs in ((("zh", "en"), QUOTATIONS), (("en", "zh"), [Pair(*pair[::-1]) for pair in QUOTATIONS])):
        corpora = augment({"one": pairs * 20}, {"one": 1.0}, shares, languages, "nfkc", seed=0)
        assert {name: len(corpus) for name, corpus in corpora.items()} == {"naming": 30}
        texts = dict(zip(languages, map(" ".join, zip(*corpora["naming"], strict=True)), strict=True))
        assert re.search(r"[\u4e00-\u9fff]", texts["zh"])
        assert not re.search(r"[\u4e00-\u9fff]", texts["en"])
