from __future__ import annotations

from pathlib import Path

import pytest

from xuanzang.text.language_detection import (
    LanguageChoice,
    LanguageDetector,
    installed_libraries,
    is_installed,
    narrowed,
    read,
)
from xuanzang.text.types import TextKind

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
ZH_EN = LanguageChoice(sources=("zh",), target="en")
EN_ZH = LanguageChoice(sources=("en",), target="zh")
DETECTOR = LanguageDetector(installed_libraries())
BOTH = LanguageChoice(sources=("en", "zh"))
needs_detection = pytest.mark.skipif(not is_installed(), reason="needs the extra `detection`")


def kind(text: str, choice: LanguageChoice, detector: LanguageDetector | None = None) -> str:
    reading = read(text, detector or DETECTOR, choice)
    return f"{reading.kind.value} {reading.language}".strip()


def rows(name: str) -> list[list[str]]:
    return [line.split("\t") for line in (BENCHMARKS / name).read_text(encoding="utf-8").splitlines()]


@needs_detection
@pytest.mark.parametrize("choice", [ZH_EN, EN_ZH, BOTH])
def test_sentences_of_20_languages_are_not_served(choice: LanguageChoice) -> None:
    foreign = rows("foreign_sentences.tsv")
    found = [(language, read(text, DETECTOR, choice)) for language, text in foreign]
    # Sentences of one or two words may be names.
    assert sum(reading.kind is TextKind.UNSERVED for _, reading in found) >= 0.9 * len(foreign)
    told = [(language, reading.language) for language, reading in found if reading.language not in ("", "en")]
    assert len({language for language, _ in told}) == 20
    # Indonesian and Malay are nearly one language.
    assert all(code == language or (language, code) == ("id", "ms") for language, code in told)


@needs_detection
def test_no_sentence_of_a_served_language_is_refused_or_copied() -> None:
    for chinese, english, *_ in rows("sentences.tsv"):
        for choice in (ZH_EN, BOTH):
            assert kind(chinese, choice) == "served zh"
        for choice in (EN_ZH, BOTH):
            assert kind(english, choice) in ("served en", "uncertain en")


@needs_detection
@pytest.mark.parametrize(
    "text",
    [
        *(
            "你好",
            "請把這個檔案夾移動到別的地方。",
            "佢哋喺度食緊飯",
            "iPhone 15 手机",
            "App Store 应用",
            "鲜の每日",
            "3月",
        ),
        "日语“こんにちは”的意思是你好。",
        "在 PyTorch 中使用 torch.compile 加速 Transformer 模型",
        "Introduction. " * 30 + "请把这个文件夹移动到别的地方。",
    ],
)
def test_a_text_with_chinese_in_it_is_translated_from_chinese(text: str) -> None:
    assert kind(text, ZH_EN) in ("served zh", "uncertain zh")


@needs_detection
@pytest.mark.parametrize(
    "text",
    [
        *("OK", "Taxi", "café", "São Paulo", "Ludwig van Beethoven", "Le Petit Prince", "Jean-Claude van Damme"),
        *("for i in range(10): print(i)", "SELECT * FROM users WHERE id = 1", "lol", "12:30", "Hello world"),
        *("He said “Je ne sais quoi” and left.", "Please click the 确定 button to continue", "μm"),
    ],
)
def test_names_code_and_short_texts_may_be_english(text: str) -> None:
    assert read(text, DETECTOR, EN_ZH).kind in (TextKind.SERVED, TextKind.UNCERTAIN)


@pytest.mark.parametrize(
    ("text", "source", "expected"),
    [
        ("fifteen", "zh", TextKind.COPIED),
        ("猫", "en", TextKind.COPIED),
        ("fifteen", "en", TextKind.UNCERTAIN),
        ("fifteen", "", TextKind.UNCERTAIN),
        ("猫 ok", "en", TextKind.UNCERTAIN),
        ("12:30", "zh", TextKind.UNCERTAIN),
    ],
)
def test_a_text_without_a_letter_of_the_language_of_its_request_is_copied(
    text: str, source: str, expected: TextKind
) -> None:
    assert narrowed(read(text, LanguageDetector(None), BOTH), source).kind is expected


@needs_detection
@pytest.mark.parametrize("text", ["Il pleut.", "Está lloviendo.", "Danke schön.", "Merci beaucoup."])
def test_a_phrase_that_is_probably_in_an_unserved_language_is_translated_in_doubt(text: str) -> None:
    reading = read(text, DETECTOR, EN_ZH)
    assert (reading.kind, reading.is_doubtful) == (TextKind.UNCERTAIN, True)


@needs_detection
@pytest.mark.parametrize(
    "text",
    [
        *("I see.", "Come in!", "He left.", "Never mind.", "Why not?", "Log out", "Sign in", "Vice versa", "Et al."),
        *("Bon voyage!", "OK", "Taxi", "café", "São Paulo", "Ludwig van Beethoven", "Le Petit Prince", "It rains."),
        *("for i in range(10): print(i)", "Guten Morgen", "12:30", "你好"),
    ],
)
def test_names_and_short_english_are_in_no_doubt(text: str) -> None:
    assert not read(text, DETECTOR, EN_ZH).is_doubtful


@needs_detection
@pytest.mark.parametrize(
    "text", [*["Merci", "Danke!", "Hola", "Gracias", "Bonjour", "Grazie", "Obrigado", "Bitte", "Haus"], "Guten Morgen"]
)
def test_a_word_of_another_language_is_translated_without_a_verdict(text: str) -> None:
    reading = read(text, DETECTOR, EN_ZH)
    assert (reading.kind, reading.is_likely) == (TextKind.UNCERTAIN, False)


@needs_detection
def test_sentences_of_served_languages_have_a_verdict() -> None:
    pairs = rows("sentences.tsv")
    assert all(read(chinese, DETECTOR, ZH_EN).is_likely for chinese, *_ in pairs)
    assert sum(read(english, DETECTOR, EN_ZH).is_likely for _, english, *_ in pairs) >= 0.99 * len(pairs)
    assert read("鲜の每日", DETECTOR, ZH_EN).is_likely
    assert read("Merci", LanguageDetector(None), EN_ZH).is_likely


@needs_detection
def test_beginnings_of_english_sentences_are_seldom_in_doubt() -> None:
    words = [english.split() for _, english, *_ in rows("sentences.tsv")]
    beginnings = {" ".join(each[:number]) for each in words for number in (2, 3, 4)}
    doubtful = [text for text in beginnings if read(text, DETECTOR, EN_ZH).is_doubtful]
    assert len(doubtful) <= 0.01 * len(beginnings)


@needs_detection
@pytest.mark.parametrize(
    ("text", "choice", "expected"),
    [
        ("The weather is fine today, let us go to the park.", ZH_EN, "copied en"),
        ("我在用 Python 写一个程序。", EN_ZH, "copied zh"),
        ("請把這個檔案夾移動到別的地方。", EN_ZH, "copied zh"),
        # Without a Chinese character there is nothing to translate from Chinese.
        ("Taxi", ZH_EN, "copied"),
        ("The first of many lines in English. " * 40 + "最后一行。", ZH_EN, "uncertain zh"),
    ],
)
def test_what_is_in_the_target_language_is_copied(text: str, choice: LanguageChoice, expected: str) -> None:
    assert kind(text, choice) == expected


@needs_detection
def test_languages_that_no_detector_tells_apart_are_not_refused() -> None:
    malay = LanguageChoice(sources=("ms",), target="en")
    assert read("Saya tidak tahu mengapa dia pergi begitu cepat.", DETECTOR, malay).kind is TextKind.SERVED
    bokmal = LanguageChoice(sources=("nb",), target="en")
    assert kind("Barna leker i hagen mens bestemoren lager mat.", bokmal) != "unserved no"


def test_without_the_libraries_other_scripts_are_refused_and_latin_text_is_translated() -> None:
    plain = LanguageDetector(None)
    for text, expected in (
        ("Привет, как дела?", "unserved"),
        ("오늘은 날씨가 좋아요.", "unserved ko"),
        ("こんにちは、元気ですか。", "unserved ja"),
        ("Heute ist das Wetter sehr schön.", "uncertain en"),
        ("今天天气很好，我们去公园吧。", "copied zh"),
    ):
        assert kind(text, EN_ZH, plain) == expected
    assert kind("Heute ist das Wetter sehr schön.", ZH_EN, plain) == "copied"
    assert kind("今天天气很好，我们去公园吧。", ZH_EN, plain) == "served zh"
