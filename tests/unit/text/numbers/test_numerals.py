from __future__ import annotations

import random
from decimal import Decimal

import pytest

from xuanzang.text.numbers.numerals import (
    chinese_digits,
    chinese_numerals,
    english_digits,
    english_words,
    value_of_numerals,
    value_of_parts,
    value_of_words,
)


def test_numerals_that_are_written_are_read_as_the_same_number() -> None:
    rng = random.Random(1)
    values = [*range(2_000), *(rng.randrange(10 ** rng.randint(4, 12)) for _ in range(2_000))]
    assert [value_of_numerals(chinese_numerals(value)) for value in values] == values


@pytest.mark.parametrize(
    ("value", "numerals"),
    [
        (12, "十二"),
        (101, "一百零一"),
        (110, "一百一十"),
        (115, "一百一十五"),
        (2_008, "两千零八"),
        (22_200, "两万二千二百"),
        (100_000, "十万"),
        (1_200_000, "一百二十万"),
        (100_500_000, "一亿零五十万"),
        (2_000_000_000, "二十亿"),
    ],
)
def test_numbers_are_written_in_numerals(value: int, numerals: str) -> None:
    assert chinese_numerals(value) == numerals


@pytest.mark.parametrize(
    ("numerals", "value"),
    [
        ("一万二", 12_000),
        ("三百五", 350),
        ("一百零五", 105),
        ("一百十五", 115),
        ("三点五亿", 350_000_000),
        ("三点一四", Decimal("3.14")),
        ("兩萬億", 2 * 10**12),
        ("三点五", None),
        ("七八百", None),
        ("一千二十", None),
        ("一百零二十", None),
        ("百", None),
        ("万", None),
        ("一百零", None),
        ("十十", None),
        ("零五", None),
        ("二〇〇八", None),
        ("点五", None),
        ("", None),
    ],
)
def test_numerals_are_read_only_if_they_are_one_number(numerals: str, value: Decimal | int | None) -> None:
    assert value_of_numerals(numerals) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("42万", 420_000),
        ("3千5百", 3_500),
        ("3亿5000万", 350_000_000),
        ("1.5万亿", 1_500_000_000_000),
        ("5万3亿", None),
        ("5万2", None),
        ("1.5亿3万", None),
        ("42", None),
        ("", None),
    ],
)
def test_digits_with_units_are_read(text: str, value: int | None) -> None:
    assert value_of_parts(text) == value


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("one hundred and one", 101),
        ("a hundred", 100),
        ("twenty-one", 21),
        ("two thousand and eight", 2_008),
        ("one million, two hundred thousand", 1_200_000),
        ("three billion five", 3_000_000_005),
        ("and one", None),
        ("hundred", None),
        ("one and", None),
        ("twenty eleven", None),
        ("one million million", None),
        ("nineteen eighty-five", None),
        ("a", None),
        ("", None),
    ],
)
def test_words_are_read_only_if_they_are_one_number(words: str, value: int | None) -> None:
    assert value_of_words(words) == value


def test_words_that_are_written_are_read_as_the_same_number() -> None:
    assert [value_of_words(english_words(value)) for value in range(1, 100)] == list(range(1, 100))


@pytest.mark.parametrize(
    ("value", "english", "chinese"),
    [
        ("420000", "420,000", "42万"),
        ("2000000000", "2 billion", "20亿"),
        ("1500000", "1.5 million", "150万"),
        ("12345.6", "12,345.6", "12345.6"),
        ("3000", "3,000", "3000"),
        ("1000010000", "1,000,010,000", "10.0001亿"),
        ("1500000000000", "1.5 trillion", "1.5万亿"),
    ],
)
def test_numbers_are_written_in_digits(value: str, english: str, chinese: str) -> None:
    assert english_digits(Decimal(value)) == english
    assert chinese_digits(Decimal(value)) == chinese
