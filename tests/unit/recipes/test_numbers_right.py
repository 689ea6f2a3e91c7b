"""Numbers of translations are compared by value."""

from __future__ import annotations

from fractions import Fraction

import pytest
from numbers_right import TESTS, is_right, made_tests, numbers_in

from xuanzang.model.evaluation.test_sets import read_test_set


def test_the_400_pairs_are_those_that_the_script_makes() -> None:
    lines = TESTS.read_text(encoding="utf-8").splitlines()
    assert lines == ["\t".join(row) for row in made_tests()]
    assert len(lines) == 400


def test_both_sides_of_each_pair_have_the_same_numbers() -> None:
    for pair in read_test_set(TESTS):
        chinese, english = numbers_in(pair.source, "zh"), numbers_in(pair.target, "en")
        assert chinese == english, pair
        assert chinese, pair


@pytest.mark.parametrize(
    ("text", "language", "values"),
    [
        ("3.5亿美元", "zh", [Fraction(350_000_000)]),
        ("三亿五千万", "zh", [Fraction(350_000_000)]),
        ("3亿5000万", "zh", [Fraction(350_000_000)]),
        ("1.2万亿", "zh", [Fraction(1_200_000_000_000)]),
        ("二〇二一年十月", "zh", [Fraction(2021), Fraction(10)]),
        ("百分之二十五和3.5%", "zh", [("%", Fraction(25)), ("%", Fraction(7, 2))]),
        ("三分之二", "zh", [Fraction(2, 3)]),
        ("下午9点半到21:45", "zh", [("time", Fraction(1290)), ("time", Fraction(1305))]),
        ("一起去，十分好，5千克", "zh", [Fraction(5)]),
        ("$350 million, 350,000,000", "en", [Fraction(350_000_000)] * 2),
        ("Two hundred and five, twenty-five", "en", [Fraction(205), Fraction(25)]),
        ("between ninety and nineteen", "en", [Fraction(90), Fraction(19)]),
        ("March 5th, 2021, which may be late", "en", [Fraction(3), Fraction(5), Fraction(2021)]),
        ("25 per cent and 3.5%", "en", [("%", Fraction(25)), ("%", Fraction(7, 2))]),
        ("two thirds, a quarter, the second quarter", "en", [Fraction(2, 3), Fraction(1, 4), Fraction(2)]),
        ("9:30 p.m., 9 am, 21:45", "en", [("time", Fraction(1290)), ("time", Fraction(540)), ("time", Fraction(1305))]),
    ],
)
def test_numbers_are_found_by_value(text: str, language: str, values: list[object]) -> None:
    assert sorted(numbers_in(text, language).elements(), key=str) == sorted(values, key=str)


@pytest.mark.parametrize(
    ("translation", "right"),
    [
        ("They paid $350 million for one painting.", True),
        ("They paid 350,000,000 dollars.", True),
        ("They paid $35 million.", False),
        ("They paid $350.", False),
        ("They paid $350 million for 2 paintings.", False),
        ("They paid.", False),
        ("", False),
    ],
)
def test_a_translation_is_right_if_all_of_its_numbers_are(translation: str, right: bool) -> None:
    assert is_right(translation, "They paid $350 million for a painting.", "en") == right
