from __future__ import annotations

import pytest

from xuanzang.server.engine.throughput import Throughput


def test_nothing_is_claimed_before_the_first_measurement() -> None:
    assert Throughput().seconds_for(100, workers=1) is None


def test_two_workers_take_half_of_the_time_of_one() -> None:
    throughput = Throughput()
    throughput.record(100, 1.0)
    assert throughput.seconds_for(50, workers=1) == pytest.approx(0.5)
    assert throughput.seconds_for(50, workers=2) == pytest.approx(0.25)


def test_old_batches_fade_and_large_ones_count_more() -> None:
    throughput = Throughput()
    throughput.record(1, 10.0)
    for _ in range(100):
        throughput.record(100, 1.0)
    assert throughput.seconds_for(100, workers=1) == pytest.approx(1.0, rel=0.01)
