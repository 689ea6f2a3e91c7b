"""When an open loop makes its calls."""

from __future__ import annotations

import random

import pytest

from xuanzang.loadtest import loops


@pytest.mark.parametrize("tick", [0.0, 0.001])
async def test_an_open_loop_that_is_behind_gets_no_further_behind(monkeypatch: pytest.MonkeyPatch, tick: float) -> None:
    now = 0.0

    def slow_clock() -> float:
        """Return the time of a clock that advances by five milliseconds whenever it is read."""
        nonlocal now
        now += 0.005
        return now

    monkeypatch.setattr(loops, "perf_counter", slow_clock)
    late = [now - due async for due in loops.due_times(2000.0, 1.0, random.Random(1), tick=tick)]
    assert len(late) > 1800
    assert 0 <= min(late) <= max(late) < 0.02
