from __future__ import annotations

import pytest

from xuanzang.server.engine.scheduling.throughput import Throughput


def test_nothing_is_claimed_before_the_first_measurement() -> None:
    assert Throughput(workers=1).seconds_for(100) is None


@pytest.mark.parametrize(("workers", "seconds"), [(1, 0.5), (2, 0.25)])
def test_workers_share_what_one_of_them_was_measured_to_do(workers: int, seconds: float) -> None:
    throughput = Throughput(workers=workers)
    throughput.record(100, 1.0)
    assert throughput.seconds_for(50) == pytest.approx(seconds)


def test_what_was_measured_long_ago_fades_with_the_work_done_since() -> None:
    throughput = Throughput(workers=1)
    throughput.record(1, 10.0)
    for _ in range(100):
        throughput.record(100, 1.0)
    assert throughput.seconds_for(100) == pytest.approx(1.0, rel=0.01)


def test_many_short_measurements_say_the_same_as_one_long_one() -> None:
    short, long = Throughput(workers=1), Throughput(workers=1)
    for _ in range(100):
        short.record(5, 0.01)
    long.record(500, 1.0)
    assert short.seconds_for(100) == pytest.approx(long.seconds_for(100))
