"""Pairs of Chinese and English sentences about persons, places, organisations, dates, numbers and sums of money.

Software's text has few of them. `naming.toml` has the words and the sentences around them.
"""

from __future__ import annotations

import calendar
import random
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import NamedTuple

from xuanzang.model.data.corpus import Pair

_SLOT = re.compile(r"\{([a-z_]+)(\d?)\}")
_FULL_STOPS = (("。", "！", "？"), (".", "!", "?"))
_LONGEST_QUOTATION = 60
_WEEKDAYS = tuple(zip("一二三四五六日", calendar.day_name, strict=True))
_SMALL_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_SIGNS = {"美元": "$", "欧元": "€", "英镑": "£"}


class Forms(NamedTuple):
    """Names of a thing in Chinese and in English, in one or more forms; the first is the one to write."""

    chinese: Sequence[str]
    english: Sequence[str]


class NamingMaker:
    """Generator of sentences, the same ones for the same seed."""

    def __init__(self, generator: random.Random, quotations: Sequence[Pair]) -> None:
        """Read the words and the sentences around them.

        Args:
            generator: Source of all choices.
            quotations: Pairs of Chinese and English; those of one whole sentence are quoted in some of the sentences.
        """
        self._random = generator
        tables = tomllib.loads((files(__package__) / "naming.toml").read_text(encoding="utf-8"))
        self._surnames, self._syllables = (_pinyin(tables.pop(name)) for name in ("surname", "given_name"))
        self._frames = _entries(tables.pop("frames"), "\n")
        self._tables = {name: _entries(table, r",|\n") for name, table in tables.items()}
        self._quotations = [pair for pair in quotations if _is_sentence(pair)]
        if not self._quotations:
            self._frames = [frame for frame in self._frames if "{quotation}" not in frame.chinese[0]]
        self._made: Mapping[str, Callable[[], Forms]] = {
            "chinese": self._chinese_name,
            "western": self._western_name,
            "person": self._person,
            "addressed": self._addressed,
            "quotation": self._quotation,
            "date": self._date,
            "month_day": self._month_day,
            "month": lambda: Forms([f"{(month := self._draw(1, 12))}月"], [calendar.month_name[month]]),
            "year": lambda: _same(str(self._draw(1900, 2030))),
            "decade": lambda: self._decade(self._draw(3, 9)),
            "century": lambda: Forms([f"{(number := self._draw(5, 21))}世纪"], [f"{_ordinal(number)} century"]),
            "weekday": self._weekday,
            "time": self._time,
            "number": self._number,
            "money": self._money,
            "percent": self._percent,
            "count": lambda: _same(str(self._draw(2, 900))),
            "plain": lambda: _same(format(self._draw(2, 10 ** self._draw(2, 5)), self._random.choice((",", "")))),
            "small": lambda: _small(self._draw(2, 99)),
            "ordinal": lambda: Forms([f"第{(number := self._draw(2, 40))}"], [_ordinal(number)]),
            "score": lambda: self._score(self._draw(1, 5), self._draw(0, 4)),
        }

    def pair(self, written: int) -> Pair:
        """Return a Chinese sentence and its English translation.

        Args:
            written: The side that a model is to write, 0 or 1. It has the first form of everything, the other one any.
        """
        frame = self._random.choice(self._frames)
        fillings: dict[str, list[str]] = {}

        def fill(slot: re.Match[str], side: int) -> str:
            if slot.group() not in fillings:
                fillings[slot.group()] = self._worded(self._forms(slot.group(1)), written)
            return fillings[slot.group()][side]

        chinese, english = (
            _SLOT.sub(lambda slot, side=side: fill(slot, side), text)  # type: ignore[misc]
            for side, text in enumerate(self._worded(frame, written))
        )
        return Pair(chinese, _polished(english))

    def _worded(self, forms: Forms, written: int) -> list[str]:
        return [side[0] if i == written else self._random.choice(side) for i, side in enumerate(forms)]

    def _forms(self, kind: str) -> Forms:
        if kind in self._made:
            return self._made[kind]()
        forms = self._random.choice(self._tables[kind])
        if not any("{city}" in form for form in forms.chinese):
            return forms
        city = self._random.choice(self._tables["city"])
        return Forms(
            *([form.replace("{city}", name[0]) for form in side] for side, name in zip(forms, city, strict=True))
        )

    def _draw(self, lowest: int, highest: int) -> int:
        return self._random.randint(lowest, highest)

    def _chinese_name(self) -> Forms:
        surname, spelt = self._random.choice(self._surnames)
        given = [self._random.choice(self._syllables) for _ in range(self._random.choice((1, 2, 2)))]
        characters, syllables = zip(*given, strict=True)
        return Forms([surname + "".join(characters)], [f"{spelt} {''.join(syllables).capitalize()}"])

    def _western_name(self) -> Forms:
        first, family = (
            self._random.choice(self._tables["first_name"]),
            self._random.choice(self._tables["family_name"]),
        )
        return Forms([f"{first.chinese[0]}·{family.chinese[0]}"], [f"{first.english[0]} {family.english[0]}"])

    def _person(self) -> Forms:
        makers = (self._chinese_name, self._western_name, lambda: self._forms("famous"))
        return self._random.choices(makers, (4, 3, 2))[0]()

    def _addressed(self) -> Forms:
        """Return a surname with a form of address, which stands behind it in Chinese."""
        address = self._forms("address")
        if self._random.random() < 0.7:
            surname, spelt = self._random.choice(self._surnames)
        else:
            surname, spelt = (side[0] for side in self._forms("family_name"))
        return Forms([surname + form for form in address.chinese], [f"{form} {spelt}" for form in address.english])

    def _quotation(self) -> Forms:
        return Forms(*([text] for text in self._random.choice(self._quotations)))

    def _date(self) -> Forms:
        year, month, day = self._draw(1850, 2030), self._draw(1, 12), self._draw(1, 28)
        name = calendar.month_name[month]
        return Forms(
            [f"{year}年{month}月{day}日"],
            [f"{name} {day}, {year}", f"{day} {name} {year}", f"{name} {_ordinal(day)}, {year}"],
        )

    def _month_day(self) -> Forms:
        month, day = self._draw(1, 12), self._draw(1, 28)
        name = calendar.month_name[month]
        return Forms([f"{month}月{day}日"], [f"{name} {day}", f"{day} {name}", f"{name} {_ordinal(day)}"])

    @staticmethod
    def _decade(decade: int) -> Forms:
        return Forms([f"20世纪{decade}0年代", f"上世纪{decade}0年代", f"19{decade}0年代"], [f"19{decade}0s"])

    def _weekday(self) -> Forms:
        character, name = self._random.choice(_WEEKDAYS)
        return Forms([f"周{character}", f"星期{character}"], [name])

    def _time(self) -> Forms:
        hour, minutes = self._draw(1, 11), self._random.choice((0, 15, 20, 30, 45))
        part, half = self._random.choice((("上午", "a.m."), ("下午", "p.m.")))
        short = half.replace(".", "")
        if not minutes:
            return Forms([f"{part}{hour}点"], [f"{hour} {half}", f"{hour} {short}", f"{hour}{short}"])
        clock = f"{hour}:{minutes}"
        spoken = "半" if minutes == 30 else f"{minutes}分"
        return Forms([f"{part}{clock}", f"{part}{hour}点{spoken}"], [f"{clock} {half}", f"{clock} {short}"])

    def _number(self) -> Forms:
        # Three significant digits at most, as texts have them.
        return _large(self._draw(1, 10 ** self._draw(1, 3) - 1) * 10 ** self._draw(2, 9))

    def _money(self) -> Forms:
        currency = self._forms("currency")
        if self._random.random() < 0.4:
            amount = _same(str(self._random.choice((self._draw(1, 999), self._draw(1, 9999) / 100))))
        else:
            amount = self._number()
        english = [f"{number} {name}" for name in currency.english for number in amount.english]
        if sign := _SIGNS.get(currency.chinese[0]):
            english = [f"{sign}{amount.english[0]}", *english]
        return Forms([f"{number}{name}" for name in currency.chinese for number in amount.chinese], english)

    def _percent(self) -> Forms:
        number = self._random.choice((str(self._draw(1, 99)), f"{self._draw(1, 999) / 10:g}"))
        return Forms([f"{number}%", f"百分之{number}"], [f"{number}%", f"{number} percent", f"{number} per cent"])

    @staticmethod
    def _score(won: int, lost: int) -> Forms:
        won += lost
        return Forms([f"{won}-{lost}", f"{won}比{lost}"], [f"{won}-{lost}", f"{won} - {lost}"])


def _large(value: int) -> Forms:
    """Return a number of hundreds or more: Chinese counts by ten thousands, English by thousands."""
    chinese = next((f"{value / unit:g}{name}" for name, unit in (("万亿", 10**12), ("亿", 10**8)) if value >= unit), "")
    if value >= 10**6:
        units = (("trillion", 10**12), ("billion", 10**9), ("million", 10**6))
        english = next(f"{value / unit:g} {name}" for name, unit in units if value >= unit)
        return Forms([chinese or f"{value / 10**4:g}万"], [english])
    digits = f"{value:,}"
    return Forms([digits, f"{value / 10**4:g}万"] if value >= 10**4 else [digits, str(value)], [digits])


def _small(value: int) -> Forms:
    tens, ones = divmod(value, 10)
    digits = "零一二三四五六七八九"
    numeral = ("" if tens < 2 else digits[tens]) + ("十" if tens else "") + (digits[ones] if ones or not tens else "")
    return Forms([str(value), numeral if value != 2 else "两"], [str(value), *_SMALL_WORDS[value : value + 1]])


def _same(text: str) -> Forms:
    return Forms([text], [text])


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _polished(english: str) -> str:
    """Mend what the frames cannot know: the article before a vowel, the comma of a quotation, the capital letter."""
    english = re.sub(r"\ba (?=[AEIO](?!u)|[aeio](?!u))", "an ", english)
    english = re.sub(r"\.\" said", '," said', english)
    return english[:1].upper() + english[1:]


def _is_sentence(pair: Pair) -> bool:
    """Return whether both sides are one whole sentence of moderate length."""
    return len(pair[0]) <= _LONGEST_QUOTATION and all(
        text.endswith(stops) and sum(map(text.count, stops)) == 1 and '"' not in text and "“" not in text
        for text, stops in zip(pair, _FULL_STOPS, strict=True)
    )


def _pinyin(table: str) -> list[tuple[str, str]]:
    words = table.split()
    return list(zip(words[::2], words[1::2], strict=True))


def _entries(table: str, separator: str) -> list[Forms]:
    """Read "zh|zh = en|en" entries."""
    lines = (entry.strip() for entry in re.split(separator, table))
    return [Forms(*(side.strip().split("|") for side in line.split(" = "))) for line in lines if line]
