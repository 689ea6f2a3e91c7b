"""Pairs of Chinese and English sentences about persons, places, organisations, dates, numbers and sums of money.

Text about software has few of them. `naming.toml` has the words and the sentences around them, `numbers.toml` the units
and the sentences around amounts.
"""

from __future__ import annotations

import calendar
import random
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import Literal, NamedTuple, get_args

from xuanzang.model.data.corpus import Pair

CHINESE_DIGITS = "零一二三四五六七八九"
_WEEKDAYS = tuple(zip("一二三四五六日", calendar.day_name, strict=True))
_QUARTERS = tuple(zip("一二三四", ("first", "second", "third", "fourth"), strict=True))
_FRACTIONS = (
    ("三分之一", "one third"),
    ("三分之二", "two thirds"),
    ("四分之一", "one quarter"),
    ("四分之三", "three quarters"),
    ("五分之一", "one fifth"),
    ("五分之三", "three fifths"),
    ("十分之一", "one tenth"),
)
ENGLISH_SMALL = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
ENGLISH_TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SIGNS = {"美元": "$", "欧元": "€", "英镑": "£"}


class Forms(NamedTuple):
    """Names of a thing in Chinese and in English, in one or more forms; the first is the one to write."""

    chinese: Sequence[str]
    english: Sequence[str]


class QuantityMaker:
    """Generator of quantities of a kind, such as "money" or "date", the same ones for the same seed."""

    def __init__(self, generator: random.Random, currencies: Sequence[Forms], units: Sequence[Forms]) -> None:
        """Take the words that stand with numbers.

        Args:
            units: Names of units, in English in the plural.
        """
        self._random, self._currencies, self._units = generator, currencies, units
        self.makers: Mapping[str, Callable[[], Forms]] = {
            "date": self._date,
            "month_day": self._month_day,
            "year_month": self._year_month,
            "month": lambda: Forms([f"{(month := self._draw(1, 12))}月"], [calendar.month_name[month]]),
            "year": lambda: _same(str(self._draw(1900, 2030))),
            "quarter": self._quarter,
            "decade": lambda: _decade(self._draw(3, 9)),
            "century": lambda: Forms([f"{(number := self._draw(5, 21))}世纪"], [f"{ordinal(number)} century"]),
            "weekday": self._weekday,
            "time": self._time,
            "clock": lambda: _same(f"{self._draw(0, 23)}:{self._draw(0, 59):02}"),
            "number": self._number,
            "amount": self._amount,
            "money": self._money,
            "percent": self._percent,
            "measure": self._measure,
            "fraction": lambda: Forms(*([text] for text in self._random.choice(_FRACTIONS))),
            "decimal": lambda: _same(f"{self._draw(11, 999) / 10:g}"),
            "count": lambda: _same(str(self._draw(2, 900))),
            "plain": lambda: _same(format(self._draw(2, 10 ** self._draw(2, 5)), self._random.choice((",", "")))),
            "small": lambda: self._spelt(self._draw(2, 99)),
            "ordinal": lambda: Forms([f"第{(number := self._draw(2, 40))}"], [ordinal(number)]),
            "score": lambda: _score(self._draw(1, 5), self._draw(0, 4)),
        }
        """By kind, the function that makes one."""

    def _draw(self, lowest: int, highest: int) -> int:
        return self._random.randint(lowest, highest)

    def _date(self) -> Forms:
        year, month, day = self._draw(1850, 2030), self._draw(1, 12), self._draw(1, 28)
        name = calendar.month_name[month]
        return Forms(
            [f"{year}年{month}月{day}日"],
            [f"{name} {day}, {year}", f"{day} {name} {year}", f"{name} {ordinal(day)}, {year}"],
        )

    def _month_day(self) -> Forms:
        month, day = self._draw(1, 12), self._draw(1, 28)
        name = calendar.month_name[month]
        return Forms(
            [f"{month}月{day}日", f"{month}月{day}号"], [f"{name} {day}", f"{day} {name}", f"{name} {ordinal(day)}"]
        )

    def _year_month(self) -> Forms:
        year, month = self._draw(1900, 2030), self._draw(1, 12)
        return Forms([f"{year}年{month}月"], [f"{calendar.month_name[month]} {year}"])

    def _quarter(self) -> Forms:
        character, name = self._random.choice(_QUARTERS)
        return Forms([f"第{character}季度"], [f"{name} quarter"])

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
        return large(self._draw(1, 10 ** self._draw(1, 3) - 1) * 10 ** self._draw(2, 9))

    def _amount(self) -> Forms:
        """Return a number of two to thirteen digits, in figures with a unit, in figures alone, or spelt."""
        kind = self._random.random()
        if kind < 0.2:
            return _same(f"{self._draw(10**4, 10 ** self._draw(5, 9)):,}")
        if kind < 0.45:
            return self._spelt(self._draw(1, 99) * 10 ** self._draw(1, 9))
        return large(self._draw(1, 10 ** self._draw(1, 5) - 1) * 10 ** self._draw(3, 8))

    def _money(self) -> Forms:
        currency = self._random.choice(self._currencies)
        if self._random.random() < 0.4:
            amount = _same(str(self._random.choice((self._draw(1, 999), self._draw(1, 9999) / 100))))
        else:
            amount = self._number()
        english = [f"{number} {name}" for name in currency.english for number in amount.english]
        if sign := _SIGNS.get(currency.chinese[0]):
            english = [f"{sign}{amount.english[0]}", *english]
        return Forms([f"{number}{name}" for name in currency.chinese for number in amount.chinese], english)

    def _spelt(self, value: int) -> Forms:
        """Return a number that Chinese may spell, such as 三百二十万, and both languages up to ten, such as five."""
        numeral = chinese_numeral(value) if value != 2 else "两"
        if value >= 1000:
            forms = large(value)
            return Forms([*forms.chinese, numeral], forms.english)
        if value <= 10 and self._random.random() < 0.5:
            return Forms([numeral], [ENGLISH_SMALL[value]])
        return Forms([str(value), numeral] if value > 10 else [str(value)], [str(value), *_words(value)])

    def _percent(self) -> Forms:
        number = self._random.choice((str(self._draw(1, 99)), f"{self._draw(1, 999) / 10:g}"))
        spoken = chinese_numeral(int(number)) if number.isdigit() else number
        return Forms(
            [f"{number}%", f"百分之{number}", f"百分之{spoken}"],
            [f"{number}%", f"{number} percent", f"{number} per cent"],
        )

    def _measure(self) -> Forms:
        unit, kind = self._random.choice(self._units), self._random.random()
        if kind < 0.3:
            amount = _same(f"{self._draw(11, 9999) / self._random.choice((10, 100)):g}")
        elif kind < 0.6:
            amount = _same(str(self._draw(2, 10 ** self._draw(1, 4))))
        else:
            amount = self._random.choice((self._number, lambda: self._spelt(self._draw(2, 99))))()
        return Forms(
            [f"{number}{name}" for name in unit.chinese for number in amount.chinese],
            [f"{number} {name}" for name in unit.english for number in amount.english],
        )


def large(value: int) -> Forms:
    """Return a number of hundreds or more: Chinese counts by ten thousands, English by thousands."""
    chinese = next((f"{value / unit:g}{name}" for name, unit in (("万亿", 10**12), ("亿", 10**8)) if value >= unit), "")
    if value >= 10**6:
        units = (("trillion", 10**12), ("billion", 10**9), ("million", 10**6))
        english = next(f"{value / unit:g} {name}" for name, unit in units if value >= unit)
        return Forms([chinese or f"{value / 10**4:g}万"], [english])
    digits = f"{value:,}"
    return Forms([digits, f"{value / 10**4:g}万"] if value >= 10**4 else [digits, str(value)], [digits])


def chinese_numeral(value: int) -> str:
    """Return a number below 10¹⁶ in Chinese characters: 三千二百万, 两千零五."""
    text = _sections(value) or CHINESE_DIGITS[0]
    text = text.removeprefix("一") if text.startswith("一十") else text
    return "两" + text[1:] if text.startswith(("二百", "二千", "二万", "二亿")) else text


def _sections(value: int) -> str:
    """Return a number in Chinese characters, by sections of four digits; nothing for 0."""
    text, gap = "", False
    for unit, name in ((10**8, "亿"), (10**4, "万"), (1, "")):
        group, value = divmod(value, unit)
        if not group:
            gap = bool(text)
            continue
        zero = "零" if text and (gap or group < 1000) else ""
        text, gap = f"{text}{zero}{_thousands(group) if group < 10**4 else _sections(group)}{name}", False
    return text


def _thousands(value: int) -> str:
    """Return a number from 1 to 9,999 in Chinese characters."""
    text = ""
    for unit, name in ((1000, "千"), (100, "百"), (10, "十"), (1, "")):
        digit, value = divmod(value, unit)
        if digit:
            text += CHINESE_DIGITS[digit] + name
        elif text and value and not text.endswith("零"):
            text += "零"
    return text


def _words(value: int) -> list[str]:
    """Return a number from 11 to 99 in English words; nothing for another."""
    if not 10 < value < 100:
        return []
    tens, ones = divmod(value, 10)
    return [ENGLISH_SMALL[value] if value < 20 else ENGLISH_TENS[tens] + (f"-{ENGLISH_SMALL[ones]}" if ones else "")]


def _same(text: str) -> Forms:
    return Forms([text], [text])


def _decade(decade: int) -> Forms:
    return Forms([f"20世纪{decade}0年代", f"上世纪{decade}0年代", f"19{decade}0年代"], [f"19{decade}0s"])


def _score(won: int, lost: int) -> Forms:
    won += lost
    return Forms([f"{won}-{lost}", f"{won}比{lost}"], [f"{won}-{lost}", f"{won} - {lost}"])


def ordinal(number: int) -> str:
    """Return an English ordinal in figures, such as 21st."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


_SLOT = re.compile(r"\{([a-z_]+)(\d?)\}")
_FULL_STOPS = (("。", "！", "？"), (".", "!", "?"))
_LONGEST_QUOTATION = 60

Topic = Literal["naming", "numbers"]
"""The subject of the sentences."""


class NamingMaker:
    """Generator of sentences, the same ones for the same seed."""

    def __init__(self, generator: random.Random, quotations: Sequence[Pair], frames: str) -> None:
        """Read the words that sentences are made of.

        Args:
            quotations: Pairs of Chinese and English; those of one whole sentence are quoted in some of the sentences.
            frames: Sentences with slots, such as those of a topic: a line of "zh = en" for each.
        """
        self._random = generator
        tables = {name: text for topic in get_args(Topic) for name, text in _read(topic).items() if name != "frames"}
        self._surnames, self._syllables = (_pinyin(tables.pop(name)) for name in ("surname", "given_name"))
        self._tables = {name: _entries(table, r",|\n") for name, table in tables.items()}
        self._frames = _entries(frames, "\n")
        self._quotations = [pair for pair in quotations if _is_sentence(pair)]
        if not self._quotations:
            self._frames = [frame for frame in self._frames if "{quotation}" not in frame.chinese[0]]
        quantities = QuantityMaker(generator, self._tables["currency"], self._tables["unit"])
        self._made: Mapping[str, Callable[[], Forms]] = {
            "chinese": self._chinese_name,
            "western": self._western_name,
            "person": self._person,
            "addressed": self._addressed,
            "quotation": self._quotation,
            **quantities.makers,
        }

    def pair(self, written: int | None) -> Pair:
        """Return a Chinese sentence and its English translation.

        Args:
            written: The side that a model is to write, 0 or 1, or None. It has the first form of everything, the others
                have any.
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

    def _worded(self, forms: Forms, written: int | None) -> list[str]:
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


def _polished(english: str) -> str:
    """Mend what the frames cannot know: articles before vowels, commas of quotations, stops, the capital letter."""
    english = re.sub(r"\ba (?=[AEIO](?!u)|[aeio](?!u))", "an ", english)
    english = re.sub(r"\.\" said", '," said', english)
    english = english.replace("m..", "m.")  # of p.m. at the end of a sentence
    return english[:1].upper() + english[1:]


def _is_sentence(pair: Pair) -> bool:
    """Return whether both sides are one whole sentence of moderate length."""
    return len(pair[0]) <= _LONGEST_QUOTATION and all(
        text.endswith(stops) and sum(map(text.count, stops)) == 1 and '"' not in text and "“" not in text
        for text, stops in zip(pair, _FULL_STOPS, strict=True)
    )


def frames_of(topic: Topic) -> str:
    """Return the sentences of a topic, with slots for words: a line of "zh = en" for each."""
    return _read(topic)["frames"]


def _read(topic: Topic) -> dict[str, str]:
    return tomllib.loads((files(__package__) / f"{topic}.toml").read_text(encoding="utf-8"))


def _pinyin(table: str) -> list[tuple[str, str]]:
    words = table.split()
    return list(zip(words[::2], words[1::2], strict=True))


def _entries(table: str, separator: str) -> list[Forms]:
    """Read "zh|zh = en|en" entries."""
    lines = (entry.strip() for entry in re.split(separator, table))
    return [Forms(*(side.strip().split("|") for side in line.split(" = "))) for line in lines if line]
