from __future__ import annotations

import math
import random

import pytest

from benchmarks.soak.trends import BLOCKS, Trend, trend


def samples(seconds: float, *, per_hour: float, noise: float, seed: int = 1) -> Trend:
    chance = random.Random(seed)
    times = [5.0 * number for number in range(round(seconds / 5))]
    return trend(times, [200 + per_hour * time / 3600 + chance.gauss(0, noise) for time in times])


def test_a_line_has_its_slope_and_no_uncertainty() -> None:
    found = samples(3600, per_hour=7.5, noise=0)
    assert found.per_hour == pytest.approx(7.5)
    assert found.low == pytest.approx(7.5)
    assert found.high == pytest.approx(7.5)


def test_the_interval_covers_the_slope_as_often_as_it_says() -> None:
    found = [samples(3600, per_hour=3, noise=10, seed=seed) for seed in range(400)]
    covered = sum(each.low <= 3 <= each.high for each in found) / len(found)
    assert covered == pytest.approx(0.95, abs=0.04)


def test_a_short_run_must_show_growth_beyond_its_noise() -> None:
    noisy = Trend(per_hour=30, low=-5, high=65, hours=0.2)
    assert not noisy.exceeds(1)
    assert not noisy.is_resolved(1)
    clear = Trend(per_hour=30, low=25, high=35, hours=0.2)
    assert clear.exceeds(1)
    assert clear.is_resolved(1)


def test_a_long_run_is_held_to_its_slope() -> None:
    assert Trend(per_hour=2.5, low=-1, high=6, hours=1.0).exceeds(1)
    assert not Trend(per_hour=0.5, low=-1, high=2, hours=1.0).exceeds(1)


@pytest.mark.parametrize(("added", "grows"), [(0, False), (1, True), (20, True)])
def test_a_count_grows_by_whole_ones(added: int, grows: bool) -> None:
    times = [5.0 * number for number in range(200)]
    values = [12.0 + math.floor(added * number / 150) for number in range(200)]
    assert trend(times, values).grows() is grows


def test_too_few_samples_have_no_trend() -> None:
    with pytest.raises(ValueError, match="too few"):
        trend([1.0] * (BLOCKS - 1), [1.0] * (BLOCKS - 1))
