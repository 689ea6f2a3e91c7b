"""Translations of first words: greetings, amounts, days, which a model trained on sentences gets wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping

from xuanzang.text.numbers.amounts import in_chinese, in_english
from xuanzang.text.numbers.numerals import chinese_numerals
from xuanzang.text.numbers.quantities import MONTHS
from xuanzang.text.offsets import nfkc

MAX_SOURCE_CHARACTERS = 40
"""Maximum length of the source of an entry."""
# NFKC has made the other marks of Chinese one of these.
_CHINESE_MARKS = {"": "", ".": "。", "。": "。", "!": "！", "?": "？"}
_WESTERN_MARKS = {"": "", ".": ".", "。": ".", "!": "!", "?": "?"}
_PAIRS = frozenset(('""', "''", "“”", "‘’", "()", "**"))
"""Marks that may be around a sentence, and stay."""
_WEEKDAYS = {"mon": "一", "tue": "二", "wed": "三", "thu": "四", "fri": "五", "sat": "六", "sun": "日"}
_WEEKDAY = rf"(?:(?P<weekday>{'|'.join(_WEEKDAYS)})(?:s|nes|rs|ur)?(?:day)?\.?,? )?"
_MONTH = rf"(?P<month>{'|'.join(sorted(MONTHS, key=len, reverse=True))})\.?"
_DAY, _YEAR = r"(?P<day>[0-9]{1,2})(?:st|nd|rd|th)?", r"(?:,? (?P<year>[0-9]{4}))"
_DATES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_WEEKDAY}{_MONTH} {_DAY}{_YEAR}?",
        rf"{_WEEKDAY}{_DAY} (?:of )?{_MONTH}{_YEAR}?",
        rf"(?P<weekday>)(?P<day>){_MONTH}{_YEAR}",
    )
)
_MAX_DAY = 31
_SHORT_MONTHS = {
    name.title(): f"{chinese_numerals(month)}月"
    for name, month in MONTHS.items()
    if len(name) <= len("sept") and name not in ("may", "june", "july")
}
# "Sun" is a word of its own.
_SHORT_DAYS = {
    name: f"星期{_WEEKDAYS[name[:3].lower()]}"
    for name in ("Mon", "Tue", "Tues", "Wed", "Thu", "Thur", "Thurs", "Fri", "Sat")
}
_SHORT_NAMES = _SHORT_MONTHS | _SHORT_DAYS
# The name of a product, as iPhone 15 Pro: a word with a capital in it, and what may follow such a word, once at least.
_SUFFIX = "(?:Pro|Max|Plus|Ultra|Mini|Air|Lite)"
_NAME = re.compile(
    rf"(?=.*[a-z][A-Z])(?=.*(?:[0-9]| {_SUFFIX}(?: |$)))"
    rf"(?:(?:[A-Za-z]*[a-z][A-Z][A-Za-z]*|[A-Z]+[0-9]*[A-Za-z]?|[0-9]{{1,4}}[a-z]{{0,2}}|{_SUFFIX})(?: |$)){{2,5}}"
)


class Lexicon:
    """Sentences of one to three words, each with its only translation, dates and amounts.

    Immutable: threads may share it.
    """

    def __init__(self, entries: Mapping[str, str], *, writes_chinese: bool) -> None:
        """Make a lexicon of sources and targets without final marks; `writes_chinese` chooses those of targets."""
        self._targets = {nfkc(source): target for source, target in entries.items()}
        self._folded = {source.casefold(): target for source, target in reversed(self._targets.items())}
        self._marks = _CHINESE_MARKS if writes_chinese else _WESTERN_MARKS
        # The other language is English if its words are there.
        self._reads_english = writes_chinese and "january" in self._folded
        self._writes_english = not writes_chinese and "January" in self._folded.values()

    def translation(self, sentence: str) -> str | None:
        """Return the translation of a sentence, with the marks that end it or are around it; None if it is not there.

        Case decides between entries that differ by case alone, such as "May" and "may".
        """
        if len(sentence) > 2 * MAX_SOURCE_CHARACTERS:
            return None
        text = nfkc(sentence).strip()
        if text[:1] + text[-1:] in _PAIRS and len(text) > len("()"):
            inner = self._translation(text[1:-1])
            return f"{text[0]}{inner}{text[-1]}" if inner else None
        return self._translation(text)

    def _translation(self, text: str) -> str | None:
        text = text.replace("’", "'")
        if self._reads_english and (short := _SHORT_NAMES.get(text.removesuffix("."))):
            return short
        words = text.rstrip(".。!?").rstrip()
        target = self._targets.get(words) or self._folded.get(words.casefold()) or self._by_rule(words)
        end = text[len(words) :].strip()
        # Several marks are each written, as in "Sorry!!"; several points are a pause.
        marks = end if "!" in end or "?" in end else (end,)
        if target is None or not all(mark in self._marks for mark in marks):
            return None
        if end and self._marks is _WESTERN_MARKS:
            target = target[:1].upper() + target[1:]
        return target + "".join(self._marks[mark] for mark in marks)

    def _by_rule(self, words: str) -> str | None:
        """Return a date, an amount or the name of a product in the other language; None for any other words."""
        if self._writes_english:
            return in_english(words)
        if not self._reads_english:
            return None
        return _date(words) or in_chinese(words) or (words if _NAME.fullmatch(words) else None)


def _date(words: str) -> str | None:
    """Return an English date in Chinese, of whose parts a model gets some wrong."""
    matches = (pattern.fullmatch(words) for pattern in _DATES)
    if (found := next(filter(None, matches), None)) is None or int(found["day"] or 1) not in range(1, _MAX_DAY + 1):
        return None
    year, day, weekday = found["year"], found["day"], (found["weekday"] or "").lower()
    date = f"{f'{year}年' if year else ''}{MONTHS[found['month'].lower()]}月{f'{int(day)}日' if day else ''}"
    return date + (f"星期{_WEEKDAYS[weekday]}" if weekday else "")
