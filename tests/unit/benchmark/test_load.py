from __future__ import annotations

import itertools
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st
from load import Answer, Load, arrival_times, percentile, summarize

LOAD = Load(address="127.0.0.1:1", rate=10.0, callers=1, seconds=10.0, warm_up_seconds=2.0, seed=0)


@given(st.lists(st.floats(0, 1e3), min_size=1), st.floats(0.01, 1))
def test_a_percentile_is_the_smallest_value_that_enough_do_not_exceed(values: list[float], share: float) -> None:
    found = percentile(sorted(values), share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values)
    assert sum(value < found for value in values) < share * len(values)


def test_arrivals_are_those_of_a_poisson_process() -> None:
    times = arrival_times(rate=50.0, seconds=400.0, seed=3)
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert times == sorted(times)
    assert 0 < times[0] < times[-1] < 400
    # The mean and the deviation of exponential gaps are both 1 / rate.
    assert statistics.mean(gaps) == pytest.approx(1 / 50, rel=0.03)
    assert statistics.stdev(gaps) == pytest.approx(1 / 50, rel=0.03)


def test_the_same_seed_gives_the_same_arrivals() -> None:
    assert arrival_times(20.0, 10.0, seed=1) == arrival_times(20.0, 10.0, seed=1)
    assert arrival_times(20.0, 10.0, seed=1) != arrival_times(20.0, 10.0, seed=2)


def test_the_latency_of_a_late_request_counts_from_its_due_time() -> None:
    result = summarize([Answer(due=3.0, ended=3.5), Answer(due=4.0, ended=6.0)], 0, LOAD)
    assert (result.p50_ms, result.p99_ms) == (500.0, 2000.0)


def test_the_warm_up_does_not_count() -> None:
    warm_up = [Answer(due=0.0, ended=1.9)]
    late = [Answer(due=9.0, ended=12.0)]
    counted = [Answer(due=second, ended=second + 0.25) for second in range(2, 9)]
    result = summarize([*warm_up, *counted, *late], 1, LOAD)
    assert result.sentences_per_second == 7 / 8
    assert (result.requests, result.errors) == (8, 1)
    assert (result.p50_ms, result.p99_ms) == (250.0, 3000.0)


def test_a_server_without_answers_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"answered no request in 10\.0 s; 7 failed"):
        summarize([], 7, LOAD)
