from __future__ import annotations

from functools import partial

import pytest

from xuanzang.model.training.settings import Schedule, learning_rate, timed_learning_rate

rate_of = partial(learning_rate, d_model=512, warmup_steps=4000, peak=1e-3, max_steps=100_000)


def test_the_papers_schedule_at_its_own_sizes() -> None:
    assert rate_of(1, "paper") == pytest.approx(512**-0.5 * 4000**-1.5)
    assert rate_of(4000, "paper") == pytest.approx(512**-0.5 * 4000**-0.5)
    assert rate_of(16000, "paper") == pytest.approx(rate_of(4000, "paper") / 2)


@pytest.mark.parametrize("schedule", ["paper", "inverse_sqrt", "linear"])
def test_every_schedule_rises_linearly_and_then_falls(schedule: Schedule) -> None:
    rising = [rate_of(step, schedule) for step in (1000, 2000, 3000, 4000)]
    assert rising == pytest.approx([rising[0] * k for k in (1, 2, 3, 4)])
    falling = [rate_of(step, schedule) for step in range(4000, 100_001, 8000)]
    assert falling == sorted(falling, reverse=True)
    assert falling[0] > falling[-1]


def test_inverse_sqrt_is_the_papers_shape_with_a_peak_of_its_own() -> None:
    factor = 1e-3 / rate_of(4000, "paper")
    for step in (7, 4000, 50_000):
        assert rate_of(step, "inverse_sqrt") == pytest.approx(factor * rate_of(step, "paper"))


def test_linear_ends_at_zero() -> None:
    assert rate_of(52_000, "linear") == pytest.approx(5e-4)
    assert rate_of(100_000, "linear") == 0


def test_constant_stays_at_its_peak_until_the_cooldown() -> None:
    rates = [rate_of(step, "constant", cooldown_steps=20_000) for step in (2000, 4000, 80_000, 90_000, 95_000, 100_000)]
    assert rates == pytest.approx([5e-4, 1e-3, 1e-3, 5e-4, 2.5e-4, 0])


def test_prolonging_a_constant_run_changes_nothing_before_its_cooldown() -> None:
    longer = partial(rate_of, max_steps=200_000)
    for step in (1, 4000, 79_999):
        assert rate_of(step, "constant", cooldown_steps=20_000) == longer(step, "constant", cooldown_steps=20_000)


def test_by_the_clock_the_rate_rises_holds_and_falls_to_0_at_the_end() -> None:
    def rate(step: int, share: float, warmup_steps: int = 100) -> float:
        return timed_learning_rate(step, share, warmup_steps=warmup_steps, peak=2.0)

    assert [rate(step, 0.0) for step in (1, 50, 100)] == pytest.approx([0.02, 1.0, 2.0])
    assert [rate(500, share) for share in (0.2, 0.7, 0.85, 1.0, 1.1)] == pytest.approx([2.0, 2.0, 1.0, 0.0, 0.0])
    # Steps so slow that the warm-up would last to the end.
    assert [rate(1, share, warmup_steps=4000) for share in (0.05, 0.1)] == pytest.approx([1.0, 2.0])
