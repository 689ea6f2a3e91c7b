from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xuanzang.server.bundles.quality_head import Feature, FlagLimits, QualityHead
from xuanzang.server.engine.quality.head import (
    FEATURES,
    MAX_DEVIATIONS,
    QualityEstimator,
    SearchedSentence,
    unknown_features,
)

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


def test_a_strange_value_counts_no_more_than_the_strangest_of_the_fit() -> None:
    estimator = QualityEstimator(head(feature(weight=1.0)))
    strange = dataclasses.replace(SENTENCE, token_scores=[-1e30, -0.1])
    assert estimator.probability(strange) == pytest.approx(1 / (1 + math.exp(MAX_DEVIATIONS)))


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=2), st.floats(-1e6, 1e6), st.floats(1e-6, 1e6), st.text("a猫1 ")
)
def test_any_head_and_text_give_a_probability(
    weights: list[float], intercept: float, deviation: float, target: str
) -> None:
    features = [feature(name, deviation=deviation, weight=weights[0], square_weight=weights[1]) for name in FEATURES]
    estimator = QualityEstimator(head(*features, intercept=intercept))
    assert 0 <= estimator.probability(dataclasses.replace(SENTENCE, target=target)) <= 1


def test_features_of_a_later_version_are_named() -> None:
    assert unknown_features(head(feature(), feature("entropy"))) == ["entropy"]
