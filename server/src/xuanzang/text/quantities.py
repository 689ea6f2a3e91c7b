"""Numbers of a text, as values: digits with thousands marks and Chinese units, and number words of both languages."""

from __future__ import annotations

import re
from collections.abc import Iterator

from xuanzang.text.offsets import nfkc

_UNITS = {"十": 10, "百": 100, "千": 1000, "万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8}
_WORDS = {
    **dict(zip("零 一 二 三 四 五 六 七 八 九".split(), range(10), strict=True)),  # noqa: SIM905
    **{"〇": 0, "两": 2, "兩": 2, "俩": 2, "双": 2, "雙": 2, "半": 0.5},
}
_ENGLISH = {
    **{
        word: value
        for value, words in enumerate(
            (
                *("zero", "one first once a an single January Jan", "two second twice both pair couple double half"),
                *("three third triple", "four fourth quarter", "five fifth", "six sixth", "seven seventh"),
                *("eight eighth", "nine ninth", "ten tenth", "eleven eleventh", "twelve twelfth dozen noon midnight"),
                *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
            )
        )
        for word in words.split()
    },
    **{
        word: 10 * (tens + 2)
        for tens, word in enumerate("twenty thirty forty fifty sixty seventy eighty ninety".split())  # noqa: SIM905
    },
}
_MONTHS = (
    *("january jan", "february feb", "march mar", "april apr", "may", "june jun", "july jul", "august aug"),
    *("september sep sept", "october oct", "november nov", "december dec"),
)
_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_SCALES |= {"k": 1000, "m": 10**6, "bn": 10**9}
_GROUPED = re.compile(r"(?<=\d)[,  ](?=\d{3}(?!\d))")
_NUMBER = re.compile(
    r"(?P<digits>\d{1,40}(?:\.\d{1,40})?)(?: ?(?P<units>[十百千万萬亿億]{1,3})"
    r"| ?(?P<scale>hundred|thousand|million|billion|trillion|[km]|bn)s?\b)?",
    re.IGNORECASE,
)
_CHINESE = re.compile("[零〇一二两兩俩双雙三四五六七八九十百千万萬亿億半点]{1,40}")
_ENGLISH_RUN = re.compile(r"[a-z]{1,20}", re.IGNORECASE)


def numbers_in_digits(text: str) -> list[float]:
    """Return the values of the numbers that are written in digits."""
    return [_value(found) for found in _NUMBER.finditer(_plain(text))]


def numbers_of(text: str) -> set[float]:
    """Return the values of all numbers that a text may mean, in digits and in words."""
    plain = _plain(text)
    values = {float(digits) for digits in re.findall(r"\d{1,40}(?:\.\d{1,40})?", plain)}
    values.update(map(_value, _NUMBER.finditer(plain)))
    values.update(value for run in _CHINESE.findall(plain) for value in _chinese(run))
    values.update(_english(_ENGLISH_RUN.findall(plain)))
    return values


def _plain(text: str) -> str:
    return _GROUPED.sub("", nfkc(text))


def _value(found: re.Match[str]) -> float:
    value = float(found["digits"])
    for unit in found["units"] or "":
        value *= _UNITS[unit]
    return value * _SCALES.get((found["scale"] or "").lower(), 1)


def _chinese(run: str) -> Iterator[float]:
    """Yield what Chinese numerals may mean: a number, its digits, and each of its parts."""
    total = section = digit = 0.0
    for character in run:
        if character in _WORDS:
            digit = _WORDS[character]
            yield digit
        elif (unit := _UNITS.get(character, 0)) >= 10**4:
            total = (total + section + digit or 1) * unit
            section = digit = 0.0
        elif unit:
            section += (digit or 1) * unit
            digit = 0.0
            yield section
    yield total + section + digit
    digits = "".join(str(int(_WORDS[each])) for each in run if each in _WORDS and each != "半")
    if len(digits) == len(run):
        yield float(digits)
    if "半" in run:
        yield total + section + 30
        yield 30


def _english(words: list[str]) -> Iterator[float]:
    """Yield what English number words may mean, such as "two hundred and five"."""
    total = current = 0.0
    is_open = False
    for word in (*map(str.lower, words), ""):
        if word in _ENGLISH:
            yield _ENGLISH[word]
            current += _ENGLISH[word]
            is_open = True
        elif word in _SCALES and len(word) > len("bn"):
            yield (current or 1) * _SCALES[word]
            current = (current or 1) * _SCALES[word]
            total, current = (total + current, 0.0) if current >= 1000 else (total, current)
            is_open = True
        elif word != "and" and is_open:
            yield total + current
            total = current = 0.0
            is_open = False
        for month, names in enumerate(_MONTHS, start=1):
            if word in names.split():
                yield month
        if word in ("half", "thirty"):
            yield 0.5
            yield 30
