from __future__ import annotations

from collections.abc import Sequence

import pytest

from xuanzang.server.bundles.quality_head import FlagLimits
from xuanzang.server.engine.quality.flags import sentence_flags
from xuanzang.server.engine.quality.head import SearchedSentence
from xuanzang.server.engine.types import QualityFlag

LIMITS = FlagLimits(min_token_ratio=0.5, max_token_ratio=2.0, max_low_attention_share=0.5)


def flags(
    source: str, target: str, *, tokens: int = 4, attention: Sequence[float] = (1.0,) * 10, finished: bool = True
) -> set[QualityFlag]:
    sentence = SearchedSentence(
        source=source,
        target=target,
        source_tokens=tokens,
        token_scores=[-0.1] * 5,
        alignment=[0] * 5,
        attention=attention,
        finished=finished,
    )
    found = list(sentence_flags(sentence, LIMITS))
    assert len(found) == len(set(found))
    return set(found)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("我有一只猫。", "I have a cat."),
        ("12月3日下午2点见面。", "See you at two o'clock on December 3."),
        ("人口有3.5万。", "The population is 35,000."),
        ("一共1,234,567人。", "There are 1234567 people."),
        ("２０２４年", "The year 2024"),
        ("007号", "Number 07, that is 7"),
        ("用 Python 和 npm 打开 iPhone。", "Open the iphone with Python and NPM."),
        ("行程 5 km。", "The trip takes 5 kilometres."),
        ("I like cats and dogs.", "我喜欢猫和狗。"),
        ("NATO met in Paris.", "北约在巴黎开会。"),
        ("今日は東京に行きます。", "今天去东京。"),
        ("我去东京。", "東京に行きます。"),
        ("打开 Visual Studio Code。", "Open Visual Studio Code."),
        ("！？", "!?"),
    ],
)
def test_sound_translations_have_no_flags(source: str, target: str) -> None:
    assert flags(source, target) == set()


@pytest.mark.parametrize(
    ("source", "target", "flag"),
    [
        ("我有一只猫。", "I have a cat a cat a cat a cat a cat.", QualityFlag.REPETITION),
        ("98名乘客只有3人生还。", "Only three passengers survived.", QualityFlag.NUMBER_LOST),
        ("售价 1,500 元。", "It costs 15,000 yuan.", QualityFlag.NUMBER_LOST),
        ("用 Python 打开。", "Open it with a snake.", QualityFlag.NAME_LOST),
        ("Call getValue now.", "现在调用它。", QualityFlag.NAME_LOST),
        ("我去北京大学。", "I go to 北京大学 today.", QualityFlag.UNTRANSLATED),
        ("the cat sat on it", "the cat sat on it", QualityFlag.UNTRANSLATED),
        ("我去北京大学。", "我去北京大学", QualityFlag.UNTRANSLATED),
    ],
)
def test_a_fault_is_flagged_by_its_name(source: str, target: str, flag: QualityFlag) -> None:
    assert flag in flags(source, target)


def test_a_source_that_repeats_itself_may_be_translated_so() -> None:
    assert QualityFlag.REPETITION not in flags("哈哈哈哈哈哈哈哈哈哈哈哈", "ha ha ha ha ha ha ha ha")


def test_an_unfinished_hypothesis_is_truncated() -> None:
    assert flags("我有一只猫。", "I have", finished=False) == {QualityFlag.TRUNCATED}


@pytest.mark.parametrize(("tokens", "expected"), [(6, False), (10, False), (11, True)])
def test_a_target_of_too_few_tokens_is_flagged(tokens: int, *, expected: bool) -> None:
    found = flags("我" * 20, "b" * 20, tokens=tokens, attention=[1.0] * tokens)
    assert (QualityFlag.LENGTH_RATIO in found) is expected


def test_a_source_without_attention_is_badly_covered_and_padding_does_not_count() -> None:
    text, translation = "我" * 8, "b" * 20
    assert flags(text, translation, tokens=9, attention=[0.9] * 8 + [0.0] * 100) == set()
    uneven = [0.9] * 3 + [0.1] * 5 + [3.0]
    assert flags(text, translation, tokens=9, attention=uneven) == {QualityFlag.LOW_COVERAGE}
