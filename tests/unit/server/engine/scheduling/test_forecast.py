from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from search_options import search_options

from xuanzang.server.engine.decoding.hypotheses import Sentence
from xuanzang.server.engine.scheduling.forecast import Calibration, Forecast, predicted_cost


@pytest.mark.parametrize(
    ("changes", "cost"),
    [
        ({}, 10 + 4 * 10),
        ({"beam_size": 1}, 10 + 10),
        ({"max_target_length": 6}, 10 + 4 * 6),
        ({"min_target_length": 20}, 10 + 4 * 21),
        ({"prefix_ids": (7,) * 12}, 10 + 4 * 13),
    ],
)
def test_the_cost_is_the_tokens_through_encoder_and_decoder(changes: dict[str, Any], cost: int) -> None:
    options = search_options(**{"max_target_length": 50, **changes})
    assert predicted_cost(Sentence(source_ids=[5] * 10, options=options)) == cost


def test_old_measurements_fade_and_many_short_ones_equal_a_long_one() -> None:
    forecast = Forecast()
    assert forecast.seconds_for(100, workers=1) == forecast.seconds_in_batch(10, 1) == 0
    forecast.record_work(1, 10.0)
    for _ in range(100):
        forecast.record_work(100, 1.0)
    assert forecast.seconds_for(100, workers=1) == pytest.approx(1.0, rel=0.01)
    short, long = Forecast(), Forecast()
    for _ in range(100):
        short.record_work(5, 0.01)
    long.record_work(500, 1.0)
    assert short.seconds_for(100, workers=1) == pytest.approx(long.seconds_for(100, workers=1))


def measured(*sentences: tuple[int, float]) -> Forecast:
    """Return the forecast after sentences of some steps and seconds."""
    forecast = Forecast()
    for steps, seconds in sentences:
        forecast.record(10, steps, seconds, rows=8, is_whole=True)
    return forecast


def test_the_time_in_a_batch_grows_with_tokens_and_batch_and_follows_recent_sentences() -> None:
    assert measured((10, 1.0)).seconds_in_batch(20, 8) == pytest.approx(2.0)
    assert measured((10, 1.0), *[(10, 4.0)] * 200).seconds_in_batch(10, 8) == pytest.approx(4.0, rel=0.01)
    forecast = measured(*[(10, 1.0)] * 100)
    assert forecast.seconds_in_batch(10, 8) == pytest.approx(1.0)
    assert 1.0 < forecast.seconds_in_batch(10, 16) <= 2.0
    assert 0.0 < forecast.seconds_in_batch(10, 1) < 1.0
    # A sentence that is given up early counts for its part.
    part = measured((10, 1.0))
    part.record(10, 1, 1.0, rows=8, is_whole=False)
    assert 1.0 < part.seconds_in_batch(10, 8) < 1.1


@settings(max_examples=25)
@given(st.floats(0.8, 3.0), st.integers(0, 2**32 - 1))
def test_nearly_all_requests_are_done_within_their_safe_estimates(typical: float, seed: int) -> None:
    random = np.random.default_rng(seed)
    calibration, late = Calibration(), 0
    for number in range(4000):
        seconds = typical * random.uniform(0.5, 1.0) * 10
        late += number >= 2000 and seconds > calibration.safe(10.0)
        calibration.observe(10.0, seconds)
    assert late / 2000 < 0.05
    # Not safer than needed: the factor stays near the greatest of the times that occur.
    assert calibration.safe(10.0) < 13 * typical + 0.05


@given(st.floats(0.01, 1.0), st.floats(1.0, 3.5))
def test_after_a_request_runs_out_of_time_one_like_it_is_not_safe(estimate: float, error: float) -> None:
    calibration, had = Calibration(), estimate * error + 0.05
    calibration.observe_expiry(estimate, had)
    assert calibration.safe(estimate) > had
    for _ in range(5000):
        calibration.observe(estimate, 0.0)
    assert calibration.safe(estimate) == pytest.approx(estimate + 0.05)


def test_what_is_above_the_estimate_is_forgotten_within_seconds() -> None:
    calibration = Calibration()
    calibration.forget(0.0)
    calibration.observe_expiry(1.0, 1000.0)
    assert calibration.safe(1.0) <= 4.1
    calibration.forget(20.0)
    assert calibration.safe(1.0) < 1.3


@given(st.floats(0.1, 10.0), st.floats(1.0, 3.0))
def test_after_the_wait_an_estimate_that_sank_with_the_clock_is_safe(allowed: float, slowness: float) -> None:
    calibration = Calibration()
    for _ in range(1000):
        calibration.observe(1.0, slowness)
    wait = calibration.wait(20.0, allowed)
    assert calibration.safe(20.0 - wait) == pytest.approx(allowed)


@given(st.lists(st.integers(1, 20), max_size=200))
def test_an_unread_request_is_taken_to_be_as_small_as_any_of_late(costs: list[int]) -> None:
    forecast = Forecast()
    for cost in costs:
        forecast.record_request(cost, 1)
    assert forecast.smallest_cost == min(costs[-64:], default=0)
