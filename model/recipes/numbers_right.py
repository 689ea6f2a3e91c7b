r"""Count the sentences translated with every number right, through a running server.

    python model/recipes/numbers_right.py 127.0.0.1:50051 --model zh-en

`zh-en/number_tests.tsv` has 400 pairs that this script made by rule (`--write FILE` makes them again): amounts, sums of
money, percentages, dates, times and measurements in any form that Chinese or English has. They serve both directions. A
translation is right if its numbers have the values of the reference's, whatever their form: 3.5亿, 350 million and
350,000,000 are one. A 1 too many is no fault, because English writes it for an article.
"""

from __future__ import annotations

import argparse
import calendar
import random
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from served_quality import TIMEOUT, find_model, translated

from xuanzang.client import TranslationClient, TranslationError
from xuanzang.model.data.augmentation.naming import CHINESE_DIGITS, ENGLISH_SMALL, ENGLISH_TENS, NamingMaker
from xuanzang.model.data.corpus import CorpusError
from xuanzang.model.evaluation.test_sets import HeldOutPair, read_test_set

TESTS = Path(__file__).parent / "zh-en" / "number_tests.tsv"
SEED = 51
PAIRS_PER_FRAME = 8
# Other sentences than those of training.
FRAMES = {
    "amounts": """
        这座城市住着{amount}人。 = {amount} people live in this city.
        他们去年生产了{amount}部手机。 = They made {amount} mobile phones last year.
        这本书卖出了{amount}本。 = This book has sold {amount} copies.
        图书馆有{amount}本书，其中{amount2}本是英文的。 = The library has {amount} books, {amount2} of them in English.
        地震影响了{amount}个家庭。 = The earthquake affected {amount} families.
        我在花园里种了{small}棵树。 = I planted {small} trees in the garden.
        她会说{small}种语言。 = She speaks {small} languages.
        仓库里有{small}张桌子和{small2}把椅子。 = There are {small} tables and {small2} chairs in the warehouse.
        """,
    "money": """
        这辆车要{money}。 = This car costs {money}.
        她为这幅画支付了{money}。 = She paid {money} for this painting.
        银行借给他们{money}。 = The bank lent them {money}.
        他们的预算从{money}增加到{money2}。 = Their budget was increased from {money} to {money2}.
        去年的损失为{money}，今年是{money2}。 = Last year's loss was {money}, this year's is {money2}.
        房租每月{money}。 = The rent is {money} a month.
        他们向医院捐赠了{money}。 = They donated {money} to the hospital.
        修理费用是{money}。 = The repair costs {money}.
        """,
    "percentages": """
        {percent}的家庭有汽车。 = {percent} of households have a car.
        只有{percent}的人投了票。 = Only {percent} of the people voted.
        工资上涨了{percent}。 = Wages went up by {percent}.
        这种合金含有{percent}的铜和{percent2}的锌。 = This alloy contains {percent} copper and {percent2} zinc.
        失业率降至{percent}。 = Unemployment fell to {percent}.
        电池还剩{percent}的电量。 = The battery has {percent} left.
        """,
    "dates": """
        她{date}结婚。 = She got married on {date}.
        战争于{date}结束。 = The war ended on {date}.
        这封信写于{date}。 = This letter was written on {date}.
        考试从{month_day}持续到{month_day2}。 = The exams last from {month_day} to {month_day2}.
        我的生日是{month_day}。 = My birthday is {month_day}.
        这座桥建于{year}年。 = This bridge was built in {year}.
        他从{year}年到{year2}年担任市长。 = He was mayor from {year} to {year2}.
        工厂于{year_month}关闭。 = The factory closed in {year_month}.
        """,
    "times": """
        晚饭{time}开始。 = Dinner starts at {time}.
        我{time}以前必须离开。 = I have to leave before {time}.
        商店从{time}营业到{time2}。 = The shop is open from {time} to {time2}.
        下一班车{clock}发车。 = The next bus leaves at {clock}.
        航班{clock}降落。 = The flight lands at {clock}.
        """,
    "measurements": """
        一共{measure}。 = {measure} altogether.
        他们买了{measure}。 = They bought {measure}.
        不超过{measure}。 = No more than {measure}.
        从{measure}减少到{measure2}。 = It went down from {measure} to {measure2}.
        大约{measure}，也就是总数的{percent}。 = About {measure}, which is {percent} of the total.
        平均为{measure}。 = The average is {measure}.
        温度是{decimal}度。 = The temperature is {decimal} degrees.
        这个房间有{decimal}平方米。 = This room has {decimal} square meters.
        """,
    "shares and places": """
        {fraction}的学生住在学校。 = {fraction} of the students live at the school.
        他喝了{fraction}的牛奶。 = He drank {fraction} of the milk.
        他们在比赛中排名{ordinal}。 = They were ranked {ordinal} in the competition.
        我们住在{ordinal}层。 = We live on the {ordinal} floor.
        {quarter}的订单增加了{percent}。 = Orders in the {quarter} increased by {percent}.
        我们以{score}输了比赛。 = We lost the game {score}.
        请打开第{count}页。 = Please open page {count}.
        """,
}

Value = Fraction | tuple[str, Fraction]
"""A number, or with its kind: ("%", 25), ("time", minutes since midnight)."""

_ENGLISH_WORDS = {word: value for value, word in enumerate(ENGLISH_SMALL)} | {
    word: 10 * tens for tens, word in enumerate(ENGLISH_TENS) if word
}
_ENGLISH_UNITS = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_ORDINALS = {
    word: number
    for number, word in enumerate(
        ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"), start=1
    )
}
_PARTS = _ORDINALS | {"half": 2, "quarter": 4}
_MONTHS = {name: number for number, name in enumerate(calendar.month_name) if name}


def _any(words: Sequence[str] | dict[str, int]) -> str:
    return "|".join(sorted(words, key=len, reverse=True))


_SPELT = rf"(?:{_any(_ENGLISH_WORDS)}|{_any(_ENGLISH_UNITS)})\b"
_ENGLISH = re.compile(
    rf"""
    (?P<clock>\d{{1,2}}(?::\d\d)?)\s*(?P<half>[ap])\.?\s?m\b\.?|(?P<clock24>\d{{1,2}}:\d\d)
    |\b(?P<share>an?|{_SPELT})[ -](?P<part>half|third|quarter|fourth|fifth|tenth)s?\b
    |\b(?P<one_half>half)\b|\b(?P<one_quarter>quarter)\ of\b
    |(?P<figures>\d[\d,]*(?:\.\d+)?)(?:st|nd|rd|th|s)?(?:\s?(?P<unit>{_any(_ENGLISH_UNITS)})\b)?(?P<percent>\s?(?:%|per\s?cent))?
    |\b(?P<spelt>{_SPELT}(?:(?:[ -]|(?<=hundred|housand)\ and\ ){_SPELT})*)(?P<percent_spelt>\s?per\s?cent)?
    |\b(?P<ordinal>{_any(_ORDINALS)})\b|\b(?P<month>{_any(_MONTHS)})\b
    """,
    re.VERBOSE,
)
_FIGURE = r"[\d零〇一二两三四五六七八九十百千万亿]"
_RUN = rf"{_FIGURE}(?:[\d,.零〇一二两三四五六七八九十百千万亿]*{_FIGURE})?"
_CHINESE = re.compile(
    rf"""
    (?P<idiom>十分(?!之|钟)|万一|百货|百姓|四川|三明治|零下|一(?=[共起些样直定般])|[上下这]一)
    |(?P<day>上午|早上|凌晨|中午|下午|傍晚|晚上)?(?P<hour>\d{{1,2}}|[一二两三四五六七八九十]+)
        (?:[点时](?:(?P<half>半)|(?P<minutes>\d{{1,2}}|[一二三四五六七八九十]+)分?)?|:(?P<clock>\d\d))
    |百分之(?P<hundredths>{_RUN})|(?P<percent>{_RUN})%
    |(?P<below>{_RUN})分之(?P<above>{_RUN})|(?P<one_half>一半|半)
    |(?P<run>{_RUN})
    """,
    re.VERBOSE,
)
# 5千克 are 5 kilograms, 三千克 are 3,000 grams.
_UNIT_PREFIX = re.compile(r"(?<![一二三四五六七八九两])千(?=[克米瓦])")
_CHINESE_UNITS = {"十": 10, "百": 100, "千": 1000, "万": 10**4, "亿": 10**8}
_CHINESE_SIGN = re.compile(r"\d[\d,]*(?:\.\d+)?|[零〇一二两三四五六七八九十百千万亿]")


def numbers_in(text: str, language: str) -> Counter[Value]:
    """Return the values of the numbers of a text, each with how often it is there.

    Args:
        language: zh or en.
    """
    text = unicodedata.normalize("NFKC", text)
    return Counter(_chinese_values(text) if language == "zh" else _english_values(text))


def _english_values(text: str) -> Iterator[Value]:
    # Months keep their capital letter, because "may" is a verb.
    text = re.sub(rf"\b(?!(?:{_any(_MONTHS)})\b)\w+", lambda word: word.group().lower(), text)
    for found in _ENGLISH.finditer(text.replace("below zero", "")):
        get = found.groupdict().get
        if clock := get("clock") or get("clock24"):
            yield _time(*clock.split(":"), after_noon=get("half") == "p", before_noon=get("half") == "a")
        elif part := get("part"):
            yield Fraction(_spelt(found["share"]) if found["share"] not in ("a", "an") else 1, _PARTS[part])
        elif get("one_half") or get("one_quarter"):
            yield Fraction(1, 2 if get("one_half") else 4)
        elif figures := get("figures"):
            value = Fraction(figures.replace(",", "")) * _ENGLISH_UNITS.get(get("unit") or "", 1)
            yield ("%", value) if get("percent") else value
        elif spelt := get("spelt"):
            yield ("%", Fraction(_spelt(spelt))) if get("percent_spelt") else Fraction(_spelt(spelt))
        else:
            yield Fraction(_ORDINALS.get(found.group()) or _MONTHS[found.group()])


def _spelt(words: str) -> int:
    """Return the value of a number in English words."""
    total = part = 0
    for word in re.findall(r"[a-z]+", words):
        if word == "hundred":
            part = max(part, 1) * 100
        elif word in _ENGLISH_UNITS:
            total, part = total + max(part, 1) * _ENGLISH_UNITS[word], 0
        else:
            part += _ENGLISH_WORDS.get(word, 0)
    return total + part


def _chinese_values(text: str) -> Iterator[Value]:
    for found in _CHINESE.finditer(_UNIT_PREFIX.sub("", text)):
        get = found.groupdict().get
        if get("idiom"):
            continue
        if hour := get("hour"):
            minutes = get("clock") or get("minutes") or ("30" if get("half") else "0")
            day = get("day") or ""
            after = day in ("下午", "傍晚", "晚上")
            times = (str(_run(hour)), str(_run(minutes)))
            yield _time(*times, after_noon=after, before_noon=bool(day) and not after and day != "中午")
        elif percent := get("hundredths") or get("percent"):
            yield ("%", _run(percent))
        elif below := get("below"):
            yield _run(found["above"]) / _run(below)
        else:
            yield Fraction(1, 2) if get("one_half") else _run(found["run"])


def _run(text: str) -> Fraction:
    """Return the value of a number in figures, in Chinese characters or in both, such as 3亿5000万."""
    if len(text) > 1 and all(character in CHINESE_DIGITS + "〇" for character in text):
        return Fraction("".join(str(CHINESE_DIGITS.find(character.replace("〇", "零"))) for character in text))
    total = section = current = Fraction()
    for sign in _CHINESE_SIGN.findall(text):
        unit = _CHINESE_UNITS.get(sign, 0)
        if sign[0].isdecimal():
            current = Fraction(sign.rstrip(",").replace(",", ""))
        elif not unit:
            current = Fraction(2 if sign == "两" else max(0, CHINESE_DIGITS.find(sign)))
        elif unit < 10**4:
            section, current = section + (current or 1) * unit, Fraction()
        else:
            part, section, current = section + current, Fraction(), Fraction()
            # 亿 multiplies what 万 counted before it, too.
            below = total % unit if unit == 10**8 else Fraction()
            total += (below + part or 1) * unit - below
    return total + section + current


def _time(hour: str, minutes: str = "0", *, after_noon: bool, before_noon: bool) -> Value:
    hours = int(hour) % 12 + (12 if after_noon else 0) if after_noon or before_noon else int(hour)
    return ("time", Fraction(60 * hours + int(minutes)))


def is_right(translation: str, reference: str, language: str) -> bool:
    """Return whether a translation has the numbers of the reference and no others, but for a 1 too many."""
    wanted, found = numbers_in(reference, language), numbers_in(translation, language)
    return not wanted - found and set(found - wanted) <= {Fraction(1)}


def made_tests() -> Iterator[tuple[str, str, str]]:
    """Yield Chinese, English and kind of the 400 pairs, the same ones each time."""
    generator = random.Random(SEED)  # noqa: S311 - nothing secret
    for kind, frames in FRAMES.items():
        for frame in filter(None, map(str.strip, frames.splitlines())):
            maker = NamingMaker(generator, [], frame)
            for _ in range(PAIRS_PER_FRAME):
                yield (*maker.pair(written=None), kind)


class Right(NamedTuple):
    """Translations whose numbers are right, counted."""

    sentences: int
    right: int

    def __str__(self) -> str:
        """Return one line for people."""
        return f"every number right: {self.right / self.sentences:.1%} of {self.sentences}"


def count_right(pairs: Sequence[HeldOutPair], translations: Sequence[str], language: str) -> dict[str, Right]:
    """Count the translations whose numbers are right, of each group, and under "all" of all.

    Args:
        translations: Translations, one per pair.
        language: zh or en, of the translations.
    """
    found: dict[str, list[bool]] = {}
    for pair, translation in zip(pairs, translations, strict=True):
        right = is_right(translation, pair.target, language)
        for group in ("all", pair.group):
            found.setdefault(group, []).append(right)
    return {group: Right(len(right), sum(right)) for group, right in found.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Translate the sentences and print how many are right.

    Args:
        arguments: Flags, without the program's name; None takes those of the process.

    Returns:
        Exit status: 0, 1 if the server failed, 2 for wrong flags or files.
    """
    flags = _parser().parse_args(arguments)
    if flags.write:
        flags.write.write_text("".join("\t".join(row) + "\n" for row in made_tests()), encoding="utf-8")
        return 0
    try:
        pairs = read_test_set(TESTS)
        with TranslationClient(flags.address, timeout=TIMEOUT) as client:
            model = find_model(client, flags.model)
            language = model.target_languages[0].partition("-")[0]
            if language == "zh":
                pairs = [pair._replace(source=pair.target, target=pair.source) for pair in pairs]
            translations = translated(client, model, "numbers", [pair.source for pair in pairs])
    except TranslationError as error:
        sys.stderr.write(f"{flags.address}: {error}\n")
        return 1
    except (CorpusError, LookupError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    for group, right in count_right(pairs, translations, language).items():
        print(f"{group}: {right}")
    if flags.wrong:
        rows = zip(pairs, translations, strict=True)
        wrong = (
            f"{pair.source}\t{pair.target}\t{text}\n"
            for pair, text in rows
            if not is_right(text, pair.target, language)
        )
        flags.wrong.write_text("".join(wrong), encoding="utf-8")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("address", nargs="?", default="127.0.0.1:50051", help="host:port of the server")
    parser.add_argument("--model", help="name of the model, if the server has several")
    parser.add_argument("--wrong", type=Path, help="file for source, reference and translation of those that are wrong")
    parser.add_argument("--write", type=Path, help="file to write the pairs to, instead of translating them")
    return parser


if __name__ == "__main__":
    sys.exit(main())
