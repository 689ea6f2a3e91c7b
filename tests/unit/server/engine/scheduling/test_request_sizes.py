"""Tests of the sizes of the last requests."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from xuanzang.server.engine.scheduling.forecast import RequestSize, RequestSizes

REMEMBERED = 64


def test_before_the_first_request_the_smallest_size_is_nothing() -> None:
    assert RequestSizes().smallest == 0


@given(st.lists(st.integers(1, 20), min_size=1, max_size=200))
def test_the_smallest_size_is_that_of_the_requests_remembered(costs: list[int]) -> None:
    sizes = RequestSizes()
    for number, cost in enumerate(costs, 1):
        sizes.record(RequestSize(cost, 1))
        assert sizes.smallest == min(costs[max(0, number - REMEMBERED) : number])
