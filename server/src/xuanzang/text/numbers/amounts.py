"""Amounts that are a whole text, such as 20亿元 or "one hundred and one", written in Chinese or English.

A model gets zeros of such texts wrong. Only what has one reading is written; anything else is left to the model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import NamedTuple

from xuanzang.text.numbers.numerals import (
    NUMERALS,
    SCALES,
    UNITS,
    chinese_digits,
    chinese_numerals,
    english_digits,
    english_words,
    in_digits,
    value_of_numerals,
    value_of_parts,
    value_of_words,
)

MAX_CHARACTERS = 60
"""Maximum length of an amount."""


class _Unit(NamedTuple):
    chinese: str
    """Its Chinese words; the first is written."""
    english: str
    """The plural of its English word."""
    others: str = ""
    """Other English words, "_" for a space."""

    @property
    def written(self) -> str:
        return self.chinese.split()[0]


_MONEY = (
    _Unit("美元 美金", "US dollars", "dollars USD"),
    _Unit("元 圆 圓 块钱 塊錢 人民币 人民幣 元人民币 元人民幣", "yuan", "RMB CNY"),
    _Unit("欧元 歐元", "euros", "EUR"),
    _Unit("英镑 英鎊", "pounds", "GBP"),
    _Unit("日元 日圆 日圓", "yen", "JPY"),
    _Unit("港元 港币 港幣", "Hong Kong dollars", "HKD"),
    _Unit("韩元 韓元", "won", "KRW"),
    _Unit("卢布 盧布", "rubles", "roubles RUB"),
    _Unit("卢比 盧比", "rupees", "INR"),
)
_MEASURES = (
    _Unit("公里 千米", "kilometers", "kilometres km"),
    _Unit("米", "meters", "metres"),
    _Unit("厘米 公分", "centimeters", "centimetres cm"),
    _Unit("毫米", "millimeters", "millimetres mm"),
    _Unit("英里", "miles"),
    _Unit("公斤 千克", "kilograms", "kilos kg"),
    _Unit("克", "grams"),
    # Half a kilogram, which a model takes for a whole one.
    _Unit("斤", "jin"),
    _Unit("吨 噸", "tons", "tonnes"),
    _Unit("升", "liters", "litres"),
    _Unit("毫升", "milliliters", "millilitres ml"),
    _Unit("平方米", "square meters", "square_metres"),
    _Unit("平方公里 平方千米", "square kilometers", "square_kilometres"),
    _Unit("立方米", "cubic meters", "cubic_metres"),
    _Unit("公顷 公頃", "hectares"),
    _Unit("千瓦", "kilowatts", "kW"),
    _Unit("兆瓦", "megawatts", "MW"),
    _Unit("小时 小時 个小时 個小時", "hours"),
    _Unit("分钟 分鐘", "minutes"),
    _Unit("秒 秒钟 秒鐘", "seconds"),
    _Unit("天", "days"),
    _Unit("周 週 个星期 個星期", "weeks"),
    _Unit("个月 個月", "months"),
    _Unit("年", "years"),
    _Unit("人", "people"),
)
_OF_CHINESE = {word: unit for unit in (*_MONEY, *_MEASURES) for word in unit.chinese.split()}
_OF_ENGLISH = {
    word.replace("_", " ").casefold(): unit
    for unit in (*_MONEY, *_MEASURES)
    for word in (unit.english.replace(" ", "_"), *unit.others.split())
    # A weight, too.
    if word != "pounds"
}
_DOLLAR, _YUAN, *_ = _MONEY
_SIGNS = {"$": "美元", "US$": "美元", "€": "欧元", "£": "英镑"}
_YEAR, _YEARS = "年", range(1001, 2101)
_BELOW_DIGITS = 100
_MAX_UNIT_WORDS = 3

_CHINESE = re.compile(
    r"(?P<sign>(?:US)?\$|[€£¥]|人民[币幣])? ?(?P<share>百分之)?"
    rf"(?:(?P<digits>[0-9][0-9.,]*)(?P<units>[0-9{UNITS}]*?)|(?P<numerals>[{NUMERALS}点點]+?)) ?"
    rf"(?P<unit>{'|'.join(sorted(_OF_CHINESE, key=len, reverse=True))})?"
)
_PLAIN = re.compile(r"(?:[1-9][0-9]{0,2}(?:,[0-9]{3})+|0|[1-9][0-9]*)(?:\.[0-9]+)?")
# M and B are scales of money alone.
_SCALES = {"hundred": 100, **SCALES, "k": 10**3, "bn": 10**9, "m": 10**6, "b": 10**9}
_ENGLISH = re.compile(
    r"(?P<sign>(?:US)?\$|[€£])? ?(?P<digits>[0-9][0-9.,]*)"
    rf"(?: ?(?P<scale>{'|'.join(_SCALES)})(?![a-z]))?(?: ?(?P<unit>[a-z ]+))?",
    re.IGNORECASE,
)
_HALF_A_SCALE = re.compile("half a ([mb]illion)")
_SHARE = "percent"


def in_english(text: str) -> str | None:
    """Return an amount of Chinese in English; None for any other text.

    Digits without a unit such as 万 stay as they are, and numerals of less than a hundred become words.
    """
    found = _CHINESE.fullmatch(text) if len(text) <= MAX_CHARACTERS else None
    if found is None:
        return None
    sign, word = found["sign"] or "", found["unit"] or ""
    if word == _YEAR and not sign and (year := _year(found)):
        return year
    if sign[:2] == "人民":
        sign, word = "", word or _YUAN.written
    unit = _OF_CHINESE.get(word)
    number = _of_digits(found) if found["digits"] else _of_numerals(found, is_money=bool(sign) or unit in _MONEY)
    if number is None or (sign and unit and (sign, unit) != ("¥", _YUAN)):
        return None
    if found["share"]:
        return None if sign or unit else f"{number}%"
    if sign or unit is _DOLLAR:
        return f"{sign or '$'}{number}"
    # 一天 is also "one day" of a story.
    return f"{number} {unit.english}" if unit and number not in ("1", "one") else None if unit else number


def _year(found: re.Match[str]) -> str | None:
    """Return the year that is named by its digits, or by a number that is no round one."""
    digits, numerals = found["digits"] or "", found["numerals"] or ""
    named = digits if not found["units"] else ""
    named = named or (in_digits(numerals) if len(numerals) == len("二〇〇八") else "")
    if named:
        return named if named.isdigit() and int(named) in _YEARS else None
    value = value_of_numerals(numerals)
    return f"{value:f}" if value and value % _BELOW_DIGITS and value in _YEARS else None


def _of_digits(found: re.Match[str]) -> str | None:
    """Return the number of digits in English, as 42万."""
    digits, units, word = found["digits"], found["units"], found["unit"]
    if not _PLAIN.fullmatch(digits):
        return None
    if units:
        value = value_of_parts(digits.replace(",", "") + units)
        return None if value is None else english_digits(value)
    # 95年 is a year, too, and so may any number of four digits be.
    return digits if (word or found["share"]) and not (word == _YEAR and len(digits) in (2, 4)) else None


def _of_numerals(found: re.Match[str], *, is_money: bool) -> str | None:
    """Return the number of numerals in English, as 四十二万."""
    numerals, word = found["numerals"], found["unit"]
    if found["share"] and numerals == "百":
        return "100"
    digits = in_digits(numerals)
    if len(digits) > 1:
        # 五六 is "five or six", and 五六七 may be "five, six, seven".
        return digits if not word and (len(digits) > 3 or (len(digits) > 2 and "0" in digits)) else None
    value = value_of_numerals(numerals)
    # 四周 is "all around".
    if value is None or (word == _YEAR and value in _YEARS) or word in ("周", "週"):
        return None
    is_spelled = value < _BELOW_DIGITS and value == int(value) and not (is_money or found["share"])
    return english_words(int(value)) if is_spelled else english_digits(value)


def in_chinese(text: str) -> str | None:
    """Return an amount of English in Chinese; None for any other text.

    Digits without a scale such as "million" stay as they are, and words become numerals.
    """
    if len(text) > MAX_CHARACTERS:
        return None
    if found := _ENGLISH.fullmatch(text):
        return _chinese_of_digits(found)
    if scale := _HALF_A_SCALE.fullmatch(text.lower()):
        return chinese_digits(Decimal(SCALES[scale[1]]) / 2)
    for words, word in _ends(text.lower()):
        value, unit = value_of_words(words), _OF_ENGLISH.get(word)
        if value is None or value == 1 or not (unit or word in ("", _SHARE)):
            continue
        if word == _SHARE:
            return f"百分之{chinese_numerals(value).replace('两', '二')}"
        return f"{'两' if unit and value == 2 else chinese_numerals(value)}{unit.written if unit else ''}"
    return None


def _ends(text: str) -> Iterator[tuple[str, str]]:
    """Yield a text as a number and a unit: without a unit, and with one of one word or more."""
    yield text, ""
    words = text.split(" ")
    for count in range(1, min(_MAX_UNIT_WORDS, len(words) - 1) + 1):
        yield " ".join(words[:-count]), " ".join(words[-count:])


def _chinese_of_digits(found: re.Match[str]) -> str | None:
    digits, scale, sign = found["digits"], (found["scale"] or "").lower(), (found["sign"] or "").upper()
    word = (found["unit"] or "").strip().casefold()
    unit = _OF_ENGLISH.get(word)
    is_odd = (sign and word) or (scale and word == _SHARE) or (scale in ("m", "b") and not sign)
    if is_odd or not _PLAIN.fullmatch(digits) or not (scale or unit or word == _SHARE):
        return None
    if word == _SHARE:
        return f"{digits}%"
    if word and not unit:
        return None
    number = chinese_digits(Decimal(digits.replace(",", "")) * _SCALES[scale]) if scale else digits
    return number + (_SIGNS[sign] if sign else unit.written if unit else "")
