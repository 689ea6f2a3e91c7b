"""Numbers in Chinese numerals and in English words: read strictly, and written."""

from __future__ import annotations

import re
from decimal import Decimal

DIGITS = {character: value for value, character in enumerate("零一二三四五六七八九")} | {
    "〇": 0,
    "○": 0,
    "两": 2,
    "兩": 2,
}
"""Values of numerals."""
_SMALL_UNITS = {"十": 10, "百": 100, "千": 1000}
_GREAT_UNITS = {"万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8}
VALUES_OF_UNITS = _SMALL_UNITS | _GREAT_UNITS
"""Values of the units among the numerals."""
UNITS = "".join(VALUES_OF_UNITS)
"""The units."""
NUMERALS = f"{''.join(DIGITS)}{UNITS}"
"""All numerals, and the units among them."""
_GROUP = 10**4
# Digits before units, as in 3亿5000万.
_PART = re.compile(rf"([0-9]+(?:\.[0-9]+)?)([{UNITS}]+)")

_ONES = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
"""English tens from twenty, ascending."""
_VALUES = {word: value for value, word in enumerate(_ONES)} | {word: 10 * ten for ten, word in enumerate(TENS, 2)}
_VALUES["a"] = 1
SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
"""English scales, ascending."""
_ONE = "|".join(_ONES[1:10])
_BELOW_HUNDRED = rf"(?:(?:{'|'.join(TENS)})[- ](?:{_ONE})|{'|'.join((*_ONES[1:], *TENS))})"
_BELOW_THOUSAND = rf"(?:(?:{_ONE}|a) hundred(?:(?: and)? {_BELOW_HUNDRED})?|{_BELOW_HUNDRED})"
_WORDS = re.compile(
    "".join(rf"(?:(?:{_BELOW_THOUSAND}|a) {scale}(?:,? (?!$)|$))?" for scale in reversed(SCALES))
    + rf"(?:(?<=[a-z,] )(?:and ){_BELOW_HUNDRED}|{_BELOW_THOUSAND})?"
)
_FIRST_WORD = re.compile(r"[- ]")
# Decimals of a number before a scale.
_MAX_ENGLISH_DECIMALS, _MAX_CHINESE_DECIMALS = 3, 4


def in_digits(numerals: str) -> str:
    """Return the digits of numerals that name them one by one; empty for others."""
    are_digits = all(map(DIGITS.__contains__, numerals))
    return "".join(str(DIGITS[numeral]) for numeral in numerals) if are_digits else ""


def value_of_parts(text: str) -> Decimal | None:
    """Return the value of digits with Chinese units, as 42万, 3千5百 and 3亿5000万; None for any other text."""
    parts = list(_PART.finditer(text))
    if not parts or parts[-1].end() != len(text) or "".join(part[0] for part in parts) != text:
        return None
    total, last = Decimal(), Decimal("Infinity")
    for part in parts:
        unit = Decimal(1)
        for character in part[2]:
            unit *= VALUES_OF_UNITS[character]
        if not 0 < Decimal(part[1]) * unit < last or (len(parts) > 1 and "." in part[1]):
            return None
        total, last = total + Decimal(part[1]) * unit, unit
    return total


def value_of_numerals(numerals: str) -> Decimal | None:
    """Return the value of a well formed number in Chinese numerals; None for any other, such as 七八百 and 三点五.

    The latter is a time, too; before 万 and 亿 it is a number.
    """
    whole, point, decimals = numerals.replace("點", "点").partition("点")
    scale = Decimal(1)
    while point and decimals and (unit := _GREAT_UNITS.get(decimals[-1])):
        scale, decimals = scale * unit, decimals[:-1]
    value = _value(whole)
    if value is None or not point:
        return None if value is None else Decimal(value)
    if not in_digits(decimals) or (scale == 1 and len(decimals) == 1):
        return None
    return Decimal(f"{value}.{in_digits(decimals)}") * scale


def _value(numerals: str) -> int | None:
    for units, scale in (("亿億", 10**8), ("万萬", 10**4)):
        place = max(map(numerals.rfind, units))
        if place < 0:
            continue
        upper, rest = _value(numerals[:place]), numerals[place + 1 :]
        if not upper or not rest:
            return upper * scale if upper else None
        if len(rest) == 1 and DIGITS.get(rest):
            # 一万二 is 12,000.
            return upper * scale + DIGITS[rest] * scale // 10
        lower = _value(rest.lstrip("零〇"))
        has_gap = lower is not None and lower < scale // 10
        is_whole = lower and lower < scale and (rest[0] in "零〇" or not has_gap)
        return upper * scale + lower if lower and is_whole else None
    return _value_of_group(numerals)


def _value_of_group(numerals: str) -> int | None:
    """Return the value of numerals up to 9999."""
    if not numerals or (len(numerals) > 1 and not any(map(_SMALL_UNITS.__contains__, numerals))):
        return None
    value, last, digit, has_zero = 0, _GROUP, 0, False
    for character in numerals:
        unit = _SMALL_UNITS.get(character, 0)
        if character in DIGITS and not digit:
            digit = DIGITS[character]
            if digit == 0 and (has_zero or (not value and len(numerals) > 1)):
                return None
            has_zero |= digit == 0
        elif unit and unit < last and (digit or (unit == _SMALL_UNITS["十"] and not has_zero)):
            if value and (unit * 10 < last) is not has_zero:
                return None
            value, last, digit, has_zero = value + (digit or 1) * unit, unit, 0, False
        else:
            return None
    if has_zero and not digit and value:
        return None
    # 三百五 is 350.
    return value + (digit * last // 10 if digit and value and not has_zero else digit)


def chinese_digits(value: Decimal) -> str:
    """Write a number as Chinese does in digits: 42万, 20亿, 3000."""
    for unit, scale in (("万亿", 10**12), ("亿", 10**8), ("万", 10**4)):
        share = (value / scale).normalize()
        if share >= 1 and -int(share.as_tuple().exponent) <= _MAX_CHINESE_DECIMALS:
            return f"{share:f}{unit}"
    return f"{value.normalize():f}"


def chinese_numerals(value: int) -> str:
    """Write a number in numerals: 一百零一, 两千零八."""
    written = _numerals(value)
    is_several = written[0] == "二" and written[1:2] in ("百", "千", "万", "亿")
    return f"两{written[1:]}" if is_several else written


def _numerals(value: int, *, is_first: bool = True) -> str:
    for scale, unit in ((10**8, "亿"), (10**4, "万"), (1000, "千"), (100, "百"), (10, "十")):
        upper, lower = divmod(value, scale)
        if upper:
            gap = "零" if 0 < lower < scale // 10 else ""
            # 十五, but 一百一十五.
            count = "" if is_first and value < 2 * scale == 20 else _numerals(upper, is_first=is_first)
            return count + unit + gap + (_numerals(lower, is_first=False) if lower else "")
    return "零一二三四五六七八九"[value]


def value_of_words(words: str) -> int | None:
    """Return the value of English number words in small letters, at least of one; None for any other text."""
    if _FIRST_WORD.split(words, maxsplit=1)[0] not in _VALUES or not _WORDS.fullmatch(words):
        return None
    total = current = 0
    for word in re.split(r"[-, ]+", words):
        if word == "hundred":
            current *= 100
        elif word in SCALES:
            total, current = total + current * SCALES[word], 0
        else:
            current += _VALUES.get(word, 0)
    return total + current


def english_digits(value: Decimal) -> str:
    """Write a number as English does in digits: 420,000, 2 billion, 1.5 million."""
    name = next((name for name, scale in reversed(SCALES.items()) if value >= scale), "thousand")
    share = (value / SCALES[name]).normalize()
    if name != "thousand" and -int(share.as_tuple().exponent) <= _MAX_ENGLISH_DECIMALS:
        return f"{share:f} {name}"
    return f"{value.normalize():,f}"


def english_words(value: int) -> str:
    """Write a number below a hundred in words."""
    tens, ones = divmod(value, 10)
    if value < len(_ONES):
        return _ONES[value]
    return TENS[tens - 2] + (f"-{_ONES[ones]}" if ones else "")
