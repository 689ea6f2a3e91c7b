"""Pairs of Chinese and English sentences about persons, places, organisations, dates, numbers and sums of money.

Text about software has few of them. `naming.toml` has the words and the sentences around them, `numbers.toml` the units
and the sentences around amounts.
"""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import Literal, get_args

from xuanzang.model.data.augmentation.quantities import Forms, QuantityMaker
from xuanzang.model.data.corpus import Pair

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
