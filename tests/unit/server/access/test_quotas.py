from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xuanzang.server.access.quotas import Bucket, Places
from xuanzang.server.engine.errors import InvalidInputError, OverloadedError


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@given(
    limit=st.integers(1, 10**7),
    steps=st.lists(st.tuples(st.floats(0, 100), st.floats(0, 1)), min_size=1, max_size=20),
)
def test_what_is_refused_passes_after_the_delay_and_not_much_before(
    limit: int, steps: list[tuple[float, float]]
) -> None:
    clock = Clock()
    bucket = Bucket(limit, clock)
    for pause, share in steps:
        clock.now += pause
        amount = max(1, round(share * limit))
        delay = bucket.seconds_until(amount)
        assert 0 <= delay <= 60.001
        if delay > 0.002:
            clock.now += delay - 0.002
            assert bucket.seconds_until(amount) > 0
            clock.now += 0.002
        clock.now += delay if 0 < delay <= 0.002 else 0
        assert bucket.seconds_until(amount) == 0
        bucket.take(amount)


def test_a_minute_never_gives_more_than_twice_the_quota() -> None:
    clock, taken = Clock(), 0
    bucket = Bucket(100, clock)
    for _ in range(600):
        while bucket.seconds_until(1) == 0:
            bucket.take(1)
            taken += 1
        clock.now += 0.1
    assert 199 <= taken <= 200


def test_a_new_limit_keeps_what_was_used() -> None:
    bucket = Bucket(10, Clock())
    bucket.take(8)
    bucket.change(20)
    assert bucket.seconds_until(12) == 0 < bucket.seconds_until(13)
    bucket.change(None)
    assert bucket.seconds_until(10**9) == 0
    bucket.change(5)
    assert bucket.seconds_until(5) == 0


def test_what_is_given_back_never_overfills() -> None:
    bucket = Bucket(10, Clock())
    bucket.take(-5)
    bucket.take(10)
    assert bucket.seconds_until(1) == 6


def test_the_wait_for_places_follows_how_long_others_held_them() -> None:
    clock = Clock()
    places = Places(4, clock)
    with places.held(1):
        clock.now += 8
    with places.held(4):
        with pytest.raises(OverloadedError) as caught:
            places.require(2)
        assert caught.value.retry_after_seconds == 4  # two of four places, each held for 8 seconds
    places.require(4)
    with pytest.raises(InvalidInputError):
        places.require(5)
