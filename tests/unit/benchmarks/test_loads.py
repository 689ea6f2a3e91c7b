from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.harness.loads import percentile


@given(st.lists(st.floats(0, 1e3), min_size=1), st.floats(0.01, 1))
def test_a_percentile_is_the_smallest_value_that_enough_do_not_exceed(values: list[float], share: float) -> None:
    found = percentile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-9
    assert sum(value < found for value in values) < share * len(values) + 1e-9


def test_there_is_no_percentile_of_nothing() -> None:
    assert percentile([], 0.5) == 0
