from __future__ import annotations

import asyncio
import itertools
import time

import pytest

from benchmarks import overload


async def test_a_loop_that_is_late_for_its_rest_takes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    # A second passes between any two looks at the clock.
    seconds = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(seconds)))
    async with overload.resting():
        for _ in range(5):
            await asyncio.sleep(0)


async def test_a_fault_of_the_rest_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail() -> None:
        raise ArithmeticError("no time")

    monkeypatch.setattr(overload, "_rest", fail)
    with pytest.raises(ExceptionGroup, match="unhandled errors"):
        async with overload.resting():
            await asyncio.Event().wait()
