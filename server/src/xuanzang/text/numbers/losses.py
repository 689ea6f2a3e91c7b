"""Amounts of a Chinese or English sentence that its translation has lost, with the ways to write them there."""

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
)
from xuanzang.text.numbers.quantities import MONTHS, THOUSANDFOLD, numbers_in_digits, numbers_of, same_values
from xuanzang.text.offsets import nfkc

# What tells that a text may have an amount.
_TELLTALE = re.compile(rf"[0-9\uff10-\uff19]|[{NUMERALS}]{{2}}")


class _Currency(NamedTuple):
    before: str
    """Pattern of its signs before a number."""
    after: str
    """Pattern of its words behind one."""
    english: tuple[str, ...]
    """Ways to write an amount of it."""
    chinese: tuple[str, ...]
    others: str = ""
    """Pattern of what else may stand for it in a translation."""

    @property
    def seen(self) -> str:
        return "|".join(filter(None, (self.before, self.after, self.others)))


_CURRENCIES = (
    _Currency(
        r"(?:US)?\$",
        r"美元|美金|(?:US )?dollars?\b|USD",
        ("${}", "{} dollars", "{} US dollars"),
        ("{}美元", "${}"),
        "[港澳加台新]元",
    ),
    _Currency("€", r"欧元|歐元|euros?\b|EUR|€", ("€{}", "{} euros"), ("{}欧元", "€{}")),
    # Pounds are a weight, too.
    _Currency("£", "英镑|英鎊|GBP|£", ("£{}", "{} pounds"), ("{}英镑", "£{}"), "镑|鎊|pounds?|sterling"),
    _Currency("JPY", r"日[元圆圓]|yen\b", ("{} yen", "¥{}"), ("{}日元",), "¥"),
    _Currency(
        "¥|RMB|人民[币幣]",
        r"[元圆圓](?![旦月素件气氣首帅老宵])|块钱|塊錢|人民[币幣]|yuan\b|RMB|CNY",
        ("{} yuan", "¥{}", "RMB {}"),
        ("{}元", "¥{}"),
        "yen",
    ),
)
_SIGNS = "|".join(f"(?P<before{number}>{each.before})" for number, each in enumerate(_CURRENCIES))
_WORDS = "|".join(f"(?P<after{number}>{each.after})" for number, each in enumerate(_CURRENCIES))
# A number that is no part of a name, a version, a date, an hour, a score or another number.
_AMOUNT = re.compile(
    rf"(?:(?<![A-Za-z])(?:{_SIGNS}) ?)?(?<![A-Za-z0-9_#+米点點{UNITS}])(?<!(?-i:[A-Z]) )"
    r"(?<![0-9][ .,:/-])(?<![A-Za-z]-)"
    r"(?:(?P<digits>[0-9]{1,15}(?:,[0-9]{3}){0,5}(?:\.[0-9]{1,15})?)"
    rf"(?:[多余餘]?(?P<units>[{UNITS}][0-9{UNITS}]{{0,20}})(?<!千(?={THOUSANDFOLD}))| (?P<scale>{'|'.join(SCALES)})\b)?"
    rf"|(?<![第几幾数數多{NUMERALS}])(?P<numerals>[{NUMERALS}]{{2,20}})"
    # 一样 is no number, and 三千米 is 3 kilometers.
    rf"(?![{NUMERALS}几幾多余餘来來分点點])(?<!一(?=[样樣起般定直些下旦切共致律]))(?<!千(?={THOUSANDFOLD})))"
    rf"(?![A-Za-z0-9_时時点點]|[ .,:/-][0-9]|分(?!钟|鐘|之)|年代)(?P<month>月)?(?: ?(?:{_WORDS}))?",
    re.IGNORECASE,
)
# A word in Latin letters among Chinese ones, which the number behind it belongs to.
_NAME = re.compile(r"(?<![A-Za-z0-9_])[A-Za-z]{2,20} $")
_MAX_NAME = 22
_MONTH_NAMES = {month: name.title() for name, month in reversed(MONTHS.items())}
_MIN_GROUPED = 10**4
_MAX_SPELLED = 100
_MAX_NAMED_DIGITS = 4
_SMALL = 10


class _Amount(NamedTuple):
    value: Decimal
    text: str
    """Its digits as they stand, or nothing."""
    currency: _Currency | None
    is_month: bool
    name: str
    """The name in Latin letters that it stands behind, with a space, or nothing."""


def may_have_amounts(text: str) -> bool:
    """Return whether a text may have amounts, at a fraction of the cost of a search for them."""
    return _TELLTALE.search(text) is not None


def lost_amounts(source: str, target: str, *, writes_chinese: bool) -> list[tuple[str, ...]]:
    """Return the amounts of a sentence that its translation lacks, or whose currency it lacks.

    Returns the ways to write each of them in the translation, at least one.
    """
    amounts = list(_amounts(nfkc(source)))
    if not amounts:
        return []
    plain = nfkc(target)
    values = numbers_of(plain)
    return [
        tuple(dict.fromkeys(_written(each, writes_chinese=writes_chinese)))
        for each in amounts
        if values.isdisjoint(same_values(each.value))
        or (each.currency and not re.search(each.currency.seen, plain, re.IGNORECASE))
    ]


def new_numbers(source: str, target: str) -> int:
    """Return how many numbers in digits a translation has that its source lacks."""
    values = numbers_of(source)
    return sum(value > 1 and values.isdisjoint(same_values(value)) for value in numbers_in_digits(target))


def _amounts(text: str) -> Iterator[_Amount]:
    for found in _AMOUNT.finditer(text):
        value = _value(found)
        # 1 may be an article, and 0 the minutes of a full hour.
        if value is not None and value > 1:
            kinds = (
                each for number, each in enumerate(_CURRENCIES) if found[f"before{number}"] or found[f"after{number}"]
            )
            digits = found["digits"] if not (found["units"] or found["scale"]) else ""
            name = _NAME.search(text[max(0, found.start() - _MAX_NAME) : found.start()])
            yield _Amount(
                value=value,
                text=digits or in_digits(found["numerals"] or "-"),
                currency=next(kinds, None),
                is_month=bool(found["month"]),
                name=name[0] if name else "",
            )


def _value(found: re.Match[str]) -> Decimal | None:
    if numerals := found["numerals"]:
        if digits := in_digits(numerals):
            # 三四 is "three or four", and more are the digits of a telephone.
            return Decimal(digits) if len(digits) == _MAX_NAMED_DIGITS else None
        value = value_of_numerals(numerals)
        return value if value and value > _SMALL else None
    digits = found["digits"].replace(",", "")
    if found["units"]:
        return value_of_parts(digits + found["units"])
    return Decimal(digits) * SCALES.get((found["scale"] or "").lower(), 1)


def _written(amount: _Amount, *, writes_chinese: bool) -> Iterator[str]:
    """Yield the ways to write an amount."""
    if not writes_chinese and amount.is_month:
        yield _MONTH_NAMES.get(int(amount.value), amount.text or f"{amount.value:f}")
        return
    if not writes_chinese and amount.name and amount.text and not amount.currency:
        yield amount.name + amount.text
        return
    forms: tuple[str, ...] = ("{}",)
    if amount.currency:
        forms = amount.currency.chinese if writes_chinese else amount.currency.english
    numbers = list(_in_chinese(amount) if writes_chinese else _in_english(amount))
    yield from (form.format(number) for form in forms for number in numbers)


def _in_chinese(amount: _Amount) -> Iterator[str]:
    value, text = amount.value, amount.text
    if text:
        yield from (text, text.replace(",", ""))
    if not text or value >= _MIN_GROUPED:
        yield chinese_digits(value)
    if not text and value == int(value):
        yield chinese_numerals(int(value))


def _in_english(amount: _Amount) -> Iterator[str]:
    value, text = amount.value.normalize(), amount.text
    if text:
        yield text
    if not text or value >= _MIN_GROUPED:
        yield from (english_digits(value), f"{value:,f}")
    if not text or value < _MAX_SPELLED:
        yield f"{value:f}"
    if value < _MAX_SPELLED and value == int(value):
        yield english_words(int(value))
