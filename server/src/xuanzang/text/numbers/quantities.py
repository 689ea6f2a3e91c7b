"""Numbers of a text, as values: digits with thousands marks and Chinese units, and number words of both languages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from math import prod

from xuanzang.text.numbers.numerals import DIGITS, SCALES, TENS, VALUES_OF_UNITS
from xuanzang.text.offsets import nfkc

_NUMERALS = DIGITS | {"俩": 2, "双": 2, "雙": 2}
_HALF = "半"
_SMALL = (
    *("zero", "one first once a an single", "two second twice both pair couple double", "three third triple"),
    *("four fourth quarter", "five fifth", "six sixth", "seven seventh", "eight eighth", "nine ninth", "ten tenth"),
    *("eleven eleventh", "twelve twelfth dozen noon midnight", "thirteen", "fourteen", "fifteen", "sixteen"),
    *("seventeen", "eighteen", "nineteen"),
)
_ENGLISH = {
    **{word: value for value, words in enumerate(_SMALL) for word in words.split()},
    **{word: 10 * tens for tens, word in enumerate(TENS, start=2)},
    **{f"{words.split()[0]}th": value for value, words in enumerate(_SMALL) if words.endswith("teen")},
    **{f"{word[:-1]}ieth": 10 * tens for tens, word in enumerate(TENS, start=2)},
}
MONTHS = {
    name: month
    for month, names in enumerate(
        (
            *("january jan", "february feb", "march mar", "april apr", "may", "june jun", "july jul", "august aug"),
            *("september sep sept", "october oct", "november nov", "december dec"),
        ),
        start=1,
    )
    for name in names.split()
}
"""Numbers of months by their names in small letters, short ones too."""
_SCALES = {"hundred": 100, **SCALES, "k": 1000, "bn": 10**9, "dozen": 12}
# Words that stand for a number, but count nothing that follows.
_SPANS = {"half": (Decimal("0.5"), Decimal(30)), "decade": (Decimal(10),), "century": (Decimal(100),)}
THOUSANDFOLD = "(?:[米克瓦卡赫比帕焦伏欧歐牛兆安]|字节|字節)"
"""Pattern of the units that 千 is a part of, as in 千米 and 千字节."""
_UNIT = f"(?:[十百万萬亿億]|千(?!{THOUSANDFOLD}))"
_GROUPED = re.compile(r"(?<=\d)[,  ](?=\d{3}(?!\d))")
_NUMBER = re.compile(
    r"(?P<digits>\d{1,40}(?:\.\d{1,40})?)"
    rf"(?: ?(?P<units>{_UNIT}{{1,3}})(?P<more>(?:\d{{1,40}}{_UNIT}{{1,3}}){{0,4}})"
    r"| ?(?P<scale>hundred|thousand|million|billion|trillion|dozen|k|bn)(?![a-z]))?",
    re.IGNORECASE,
)
_PART = re.compile(rf"(\d{{1,40}})({_UNIT}{{1,3}})")
# 30多万 is a little more than 30万.
_SOME = re.compile("(?<=[0-9一二三四五六七八九十百千])[多余餘](?=[百千万萬亿億])")
_FRACTION = re.compile(r"(?<!\d)(\d{1,4})[/\u2044](\d{1,4})(?!\d)")
_HALVES = re.compile(r"(?<![\d/])1[/\u2044]2(?![\d/])")
_HALF_A_SCALE = re.compile(r"\bhalf (?:a )?([mb]illion)\b", re.IGNORECASE)
_MONEY = re.compile(r"([$€£¥] ?\d{1,40}(?:\.\d{1,40})?)([MB])(?![A-Za-z])")
_LETTERS = {"M": "million", "B": "billion"}
_TENTHS = re.compile(r"([一二三四五六七八九])成")
_AFTERNOON = re.compile(
    r"(?<!\d)(?:(?:下午|晚上|傍晚|夜里) ?(\d{1,2})(?!\d)|(\d{1,2})(?::\d\d)? ?p\.?m\b|(\d{2}):\d\d)", re.IGNORECASE
)
_NOON = 12
_CENTURY = 1900
_CHINESE = re.compile("[零〇一二两兩俩双雙三四五六七八九十百千万萬亿億半点]{1,40}")
_ENGLISH_RUN = re.compile(r"[a-z]{1,20}", re.IGNORECASE)


def numbers_in_digits(text: str) -> list[Decimal]:
    """Return the values of the numbers that are written in digits."""
    return [_value(found) for found in _NUMBER.finditer(_HALVES.sub("0.5", _plain(text)))]


def numbers_of(text: str) -> set[Decimal]:
    """Return the values of all numbers that a text may mean, in digits and in words."""
    plain = _plain(text)
    values = {Decimal(digits) for digits in re.findall(r"\d{1,40}(?:\.\d{1,40})?", plain)}
    values.update(map(_value, _NUMBER.finditer(plain)))
    values.update(value for run in _CHINESE.findall(plain) for value in _chinese(run))
    values.update(_english(_ENGLISH_RUN.findall(plain)))
    values.update(_derived(plain))
    return values


def same_values(value: Decimal) -> Iterator[Decimal]:
    """Yield a number and, of a decade, its names with and without the century."""
    yield value
    if _CENTURY <= value < _CENTURY + 200:
        yield value % 100
    elif value < 100:
        yield from (_CENTURY + value, _CENTURY + 100 + value)


def _derived(plain: str) -> Iterator[Decimal]:
    """Yield numbers that are written otherwise: of fractions, tenths, hours after noon, and the century of a year."""
    for scale in _HALF_A_SCALE.findall(plain):
        yield _SPANS["half"][0] * _SCALES[scale.lower()]
    for upper, lower in _FRACTION.findall(plain):
        if int(lower):
            yield Decimal(upper) / Decimal(lower)
    for tenths in _TENTHS.findall(plain):
        yield Decimal(10 * _NUMERALS[tenths])
    for found in _AFTERNOON.findall(plain):
        hour = int("".join(found))
        yield Decimal(hour + _NOON if hour <= _NOON else hour - _NOON)
    for year in re.findall(r"(?<!\d)(\d{2})\d0s", plain):
        yield Decimal(year) + 1


def _plain(text: str) -> str:
    plain = _SOME.sub("", _GROUPED.sub("", nfkc(text)))
    return _MONEY.sub(lambda found: f"{found[1]} {_LETTERS[found[2]]}", plain)


def _value(found: re.Match[str]) -> Decimal:
    value = Decimal(found["digits"])
    for unit in found["units"] or "":
        value *= VALUES_OF_UNITS[unit]
    for digits, units in _PART.findall(found["more"] or ""):
        value += Decimal(digits) * prod(VALUES_OF_UNITS[unit] for unit in units)
    return value * _SCALES.get((found["scale"] or "").lower(), 1)


def _chinese(run: str) -> Iterator[Decimal]:
    """Yield what Chinese numerals may mean: a number, its digits, and each of its parts."""
    total = section = digit = Decimal()
    last = 0
    for character in run:
        unit = VALUES_OF_UNITS.get(character, 0)
        if character in _NUMERALS:
            digit = Decimal(_NUMERALS[character])
            yield digit
        elif unit > VALUES_OF_UNITS["千"]:
            # 五千万 after 三亿 is added, 亿 after 万 multiplies.
            if 0 < unit < last:
                total += (section + digit or Decimal(1)) * unit
            else:
                total = (total + section + digit or Decimal(1)) * unit
            section, digit, last = Decimal(), Decimal(), unit
        elif unit:
            section += (digit or Decimal(1)) * unit
            digit = Decimal()
            yield section
    yield total + section + digit
    if all(map(_NUMERALS.__contains__, run)):
        yield Decimal("".join(str(_NUMERALS[each]) for each in run))
    if _HALF in run:
        yield from _SPANS["half"]


def _english(words: list[str]) -> Iterator[Decimal]:
    """Yield what English number words may mean, such as "two hundred and five"."""
    total = current = Decimal()
    is_open = False
    for word in (*map(str.lower, words), ""):
        if word in _ENGLISH:
            yield Decimal(_ENGLISH[word])
            current += _ENGLISH[word]
            is_open = True
        elif word in _SCALES and len(word) > len("bn"):
            current = (current or Decimal(1)) * _SCALES[word]
            yield current
            if word != "hundred":
                total, current = total + current, Decimal()
            is_open = True
        elif word != "and" and is_open:
            yield total + current
            total = current = Decimal()
            is_open = False
        if word in MONTHS:
            yield Decimal(MONTHS[word])
        yield from _SPANS.get(word, ())
