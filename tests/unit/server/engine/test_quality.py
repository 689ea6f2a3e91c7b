from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xuanzang.server.bundles.quality_head import Feature, FlagLimits, QualityHead
from xuanzang.server.engine.quality import (
    FEATURES,
    MAX_DEVIATIONS,
    QualityEstimator,
    SearchedSentence,
    combined,
    omits_word,
    sentence_flags,
    unknown_features,
    with_flags,
)
from xuanzang.server.engine.types import Quality, QualityFlag

probabilities = st.floats(0, 1)
flags = st.sets(st.sampled_from(QualityFlag)).map(lambda chosen: tuple(flag for flag in QualityFlag if flag in chosen))
qualities = st.builds(Quality, acceptable_probability=probabilities, flags=flags)


@given(st.lists(qualities, min_size=1, max_size=6), probabilities, st.data())
def test_a_text_is_as_acceptable_as_its_sentences(sentences: list[Quality], better: float, data: st.DataObject) -> None:
    whole = combined(sentences)
    assert whole
    assert whole.acceptable_probability is not None
    assert all(whole.acceptable_probability <= (each.acceptable_probability or 0.0) for each in sentences)
    assert set(whole.flags) == {flag for each in sentences for flag in each.flags}
    assert combined(reversed(sentences)) == whole
    # A better sentence never makes the text worse.
    place = data.draw(st.integers(0, len(sentences) - 1))
    raised = max(better, sentences[place].acceptable_probability or 0.0)
    sentences[place] = Quality(acceptable_probability=raised)
    after = combined(sentences)
    assert after
    assert (after.acceptable_probability or 0.0) >= whole.acceptable_probability
    # Text that was copied has no probability.
    assert combined([None, None]) is None


def test_flags_come_in_one_order_and_once() -> None:
    first = Quality(acceptable_probability=0.5, flags=(QualityFlag.NAME_LOST,))
    added = with_flags(first, [QualityFlag.CUT, QualityFlag.REPETITION, QualityFlag.NAME_LOST])
    assert added.flags == (QualityFlag.REPETITION, QualityFlag.NAME_LOST, QualityFlag.CUT)
    assert added.acceptable_probability == 0.5
    assert with_flags(None, []) == Quality()


FLAG_LIMITS = FlagLimits(min_token_ratio=0.5, max_token_ratio=2.0, max_low_attention_share=0.5)


def flags_of(
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
    found = list(sentence_flags(sentence, FLAG_LIMITS))
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
    assert flags_of(source, target) == set()


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
    assert flag in flags_of(source, target)


@pytest.mark.parametrize(
    ("changes", "flags"),
    [
        ({"finished": False}, {QualityFlag.TRUNCATED}),
        ({"tokens": 6}, set()),
        ({"tokens": 10}, set()),
        ({"tokens": 11, "attention": [1.0] * 11}, {QualityFlag.LENGTH_RATIO}),
        # Padding does not count.
        ({"tokens": 9, "attention": [0.9] * 8 + [0.0] * 100}, set()),
        ({"tokens": 9, "attention": [0.9] * 3 + [0.1] * 5 + [3.0]}, {QualityFlag.LOW_COVERAGE}),
    ],
)
def test_a_target_is_flagged_for_its_end_its_length_and_sources_without_attention(
    changes: dict[str, Any], flags: set[QualityFlag]
) -> None:
    assert flags_of("我" * 8, "b" * 20, **changes) == flags


def test_a_source_that_repeats_itself_may_be_translated_so() -> None:
    assert QualityFlag.REPETITION not in flags_of("哈哈哈哈哈哈哈哈哈哈哈哈", "ha ha ha ha ha ha ha ha")


LIMITS = FlagLimits(min_token_ratio=0.5, max_token_ratio=8.0, max_low_attention_share=0.5)
SENTENCE = SearchedSentence(
    source="我有一只猫",
    target="I have a 猫",
    source_tokens=4,
    token_scores=[-0.1, -0.3, -0.2],
    alignment=[0, 2, 1],
    attention=[1.0, 0.1, 0.5, 1.4, 0.0, 0.0],
)


def head(*features: Feature, intercept: float = 0.0) -> QualityHead:
    return QualityHead(features=features, intercept=intercept, limits=LIMITS)


def feature(name: str = "min_score", **values: float) -> Feature:
    known = {"mean": 0.0, "deviation": 1.0, "weight": 0.0, "square_weight": 0.0} | values
    return Feature(name=name, **known)


def test_features_are_what_their_names_say() -> None:
    measured = {name: measure(SENTENCE) for name, measure in FEATURES.items()}
    expected = {
        "mean_probability": (math.exp(-0.1) + math.exp(-0.3) + math.exp(-0.2)) / 3,
        "score_deviation": math.sqrt((0.1**2 + 0.1**2) / 3),
        "min_score": -0.3,
        "source_tokens": math.log(4),
        "source_characters": math.log(5),
        "character_ratio": math.log(11 / 6),
        "token_ratio": math.log(3 / 4),
        "low_attention_share": 1 / 3,
        "aligned_share": 3 / 4,
        "backward_share": 1 / 3,
        "copied_share": 1 / 7,
    }
    assert measured.keys() == expected.keys()
    for name, value in expected.items():
        assert measured[name] == pytest.approx(value), name


def test_the_probability_is_the_logistic_function_of_the_weighted_features() -> None:
    estimator = QualityEstimator(head(feature(mean=-0.5, deviation=0.1, weight=0.5, square_weight=0.25), intercept=-1))
    # Two deviations above the mean.
    logit = -1 + 2 * 0.5 + 4 * 0.25
    assert estimator.probability(SENTENCE) == pytest.approx(1 / (1 + math.exp(-logit)))
    # A strange value counts no more than the strangest of the fit.
    estimator = QualityEstimator(head(feature(weight=1.0)))
    strange = dataclasses.replace(SENTENCE, token_scores=[-1e30, -0.1])
    assert estimator.probability(strange) == pytest.approx(1 / (1 + math.exp(MAX_DEVIATIONS)))


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=2), st.floats(-1e6, 1e6), st.floats(1e-6, 1e6), st.text("a猫1 ")
)
def test_any_head_gives_a_probability(weights: list[float], intercept: float, deviation: float, target: str) -> None:
    features = [feature(name, deviation=deviation, weight=weights[0], square_weight=weights[1]) for name in FEATURES]
    estimator = QualityEstimator(head(*features, intercept=intercept))
    assert 0 <= estimator.probability(dataclasses.replace(SENTENCE, target=target)) <= 1


def test_features_of_a_later_version_are_named() -> None:
    assert unknown_features(head(feature(), feature("entropy"))) == ["entropy"]


@pytest.mark.parametrize(
    ("source", "spans", "attention", "is_omitted"),
    [
        ("Mary works for Siemens", [(0, 4), (4, 10), (10, 14), (15, 18), (18, 22)], [1.0, 1.0, 0.0, 0.1, 0.1], True),
        ("Mary works for Siemens", [(0, 4), (4, 10), (10, 14), (15, 18), (18, 22)], [1.0, 1.0, 0.0, 0.1, 0.9], False),
        ("Mary works for Siemens", [], [0.0] * 5, False),
        ("我和朋友去", [(0, 1), (1, 2), (2, 4), (4, 5)], [1.0, 0.1, 0.1, 0.1], True),
        ("我和朋友去", [(0, 1), (1, 2), (2, 4), (4, 5)], [1.0, 0.1, 0.5, 0.1], False),
        ("有一个人", [(0, 1), (1, 3), (3, 4)], [1.0, 0.0, 1.0], False),
    ],
)
def test_a_whole_word_without_attention_is_omitted(
    source: str, spans: list[tuple[int, int]], attention: list[float], *, is_omitted: bool
) -> None:
    sentence = dataclasses.replace(SENTENCE, source=source, spans=spans, attention=attention)
    assert omits_word(sentence) is is_omitted
