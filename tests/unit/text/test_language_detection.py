from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from xuanzang.text.language_detection import LanguageDetector, Libraries, installed_libraries, is_installed

if is_installed():
    from xuanzang.text.language_model import Rank, unpacked

pytestmark = pytest.mark.skipif(not is_installed(), reason="needs the extra `detection`")


@pytest.fixture(scope="module")
def detector() -> LanguageDetector:
    return LanguageDetector(installed_libraries())


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("今天天气很好，我们去公园吧。", "zh-Hans"),
        ("今天天氣很好，我們去公園吧。", "zh-Hant"),
        ("你好", "zh"),
        ("今日はいい天気ですね。", "ja"),
        ("오늘은 날씨가 좋아요.", "ko"),
        ("The weather is fine today, let us go to the park.", "en"),
        ("Heute ist das Wetter sehr schön.", "de"),
        ("Il fait très beau aujourd'hui.", "fr"),
        ("Сегодня прекрасная погода.", "ru"),
        ("我在用 Python 写一个程序。", "zh-Hans"),
    ],
)
def test_the_likeliest_language_of_a_sentence_is_its_own(detector: LanguageDetector, text: str, code: str) -> None:
    best = detector.detect(text).languages[0]
    assert "-".join(filter(None, (best.code, best.script))) == code
    assert best.confidence > 0.5


def test_the_classifier_is_read_once_by_the_first_text_with_letters() -> None:
    read: list[str] = []

    def reading() -> Rank:
        read.append("read")
        return lambda _text, _languages: [("de", 1.0)]

    lazy = LanguageDetector(Libraries(reading, lambda _: ""))
    assert lazy.detect("12345").languages == []
    assert read == []
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lazy.detect, ["Guten Morgen"] * 8))
    assert {each.code for some in found for each in some.languages} == {"de"}
    assert read == ["read"]


def test_chinese_in_its_own_characters_is_known_without_the_model() -> None:
    def fails() -> Rank:
        raise AssertionError("the model was read")

    quick = LanguageDetector(Libraries(fails, lambda _: "Hans"))
    [found] = quick.detect("请把这个文件夹移动到别的地方。").languages
    assert (found.code, found.script) == ("zh", "Hans")


def test_the_mapped_model_ranks_as_the_library_does(tmp_path: Path) -> None:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    whole = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    kept = tmp_path / "model"
    kept.write_bytes(unpacked())

    def open_kept() -> BinaryIO:
        return kept.open("rb")

    opened = [installed_libraries(open_model) for open_model in (None, open_kept)]
    ranks = [libraries.read_rank() for libraries in opened if libraries]
    for languages in (frozenset(("de", "fr", "en")), frozenset(("ja", "ko"))):
        whole.set_languages(languages)
        for text in ("Guten Morgen, wie geht es dir?", "Bonjour à tous", "今天天气很好", "Привет, мир", "x", ""):
            assert [rank(text, languages) for rank in ranks] == [whole.rank(text)] * 2


@pytest.mark.parametrize("text", ["", " \n", "12345", "😀!?", "OK"])
def test_what_tells_nothing_has_no_language(detector: LanguageDetector, text: str) -> None:
    assert detector.detect(text).languages == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(text=st.text())
def test_probabilities_are_ordered_and_at_most_1_together(detector: LanguageDetector, text: str) -> None:
    confidences = [each.confidence for each in detector.detect(text).languages]
    assert sum(confidences) <= 1 + 1e-6
    assert confidences == sorted(confidences, reverse=True)
    assert all(confidence >= 0.1 for confidence in confidences)


def test_rare_languages_are_told_apart_if_a_model_has_them(detector: LanguageDetector) -> None:
    text = "Mae'r tywydd yn braf iawn heddiw, beth am fynd i'r parc."
    assert detector.detect(text, languages=["cy"]).languages[0].code == "cy"
    assert "cy" not in [each.code for each in detector.detect(text).languages]


def test_a_long_text_is_read_at_its_beginning_middle_and_end(detector: LanguageDetector) -> None:
    text = "Preface. " * 20 + "请把这个文件夹移动到别的地方。" * 400
    assert detector.detect(text).languages[0].code == "zh"


def test_without_the_libraries_only_scripts_tell_a_language() -> None:
    plain = LanguageDetector(None)
    for text, code in (
        ("오늘은 날씨가 좋아요.", "ko"),
        ("こんにちは、元気ですか。", "ja"),
        ("今天天气很好，我们去公园吧。", "zh"),
    ):
        assert [each.code for each in plain.detect(text).languages] == [code]
    for text in ("Heute ist das Wetter sehr schön.", "Сегодня прекрасная погода.", "你好"):
        assert plain.detect(text).languages == []
