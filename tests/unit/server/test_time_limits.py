"""Time limits of many tasks with one timer."""

import asyncio
import itertools
import time

import pytest

from xuanzang.server.time_limits import TimeLimit, TimeLimits


async def waited(limits: TimeLimits, seconds: float, since: float | None = None) -> str:
    """Wait for ever, within a limit."""
    try:
        with TimeLimit(limits, (time.monotonic() if since is None else since) + seconds):
            await asyncio.Event().wait()
    except TimeoutError:
        return "late"
    return "never"


async def test_limits_end_in_their_order_whatever_the_order_of_their_tasks() -> None:
    limits, ended, began = TimeLimits(), list[int](), time.monotonic()

    async def note(number: int) -> None:
        assert await waited(limits, 0.02 * number, began) == "late"
        ended.append(number)

    await asyncio.gather(*(note(number) for number in (3, 1, 4, 2)))
    assert ended == [1, 2, 3, 4]
    assert not limits.begun
    assert await waited(limits, -1) == "late"


async def test_a_thousand_different_limits_take_few_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    looks, limits, look = list[float](), TimeLimits(), TimeLimits._check

    def noted(of_all: TimeLimits) -> None:
        looks.append(asyncio.get_running_loop().time())
        look(of_all)

    monkeypatch.setattr(TimeLimits, "_check", noted)
    await asyncio.gather(*(waited(limits, 0.0001 * number) for number in range(1000)))
    assert all(after - before >= 0.0045 for before, after in itertools.pairwise(looks))


async def test_a_task_that_ends_in_time_leaves_no_limit_behind() -> None:
    limits = TimeLimits()
    with TimeLimit(limits, time.monotonic() + 60) as limit:
        await asyncio.sleep(0)
    assert not limits.begun
    assert not limit.is_over


@pytest.mark.parametrize("is_over", [False, True])
async def test_a_task_that_others_cancel_even_in_the_moment_of_the_limit_is_cancelled(is_over: bool) -> None:
    limits = TimeLimits()
    waiting = asyncio.create_task(waited(limits, 60))
    await asyncio.sleep(0)
    [limit] = limits.begun
    if is_over:
        limit.reach()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_an_error_inside_a_limit_that_is_over_is_raised_as_it_is() -> None:
    async def fail_late() -> None:
        with TimeLimit(TimeLimits(), time.monotonic() + 60) as limit:
            limit.reach()
            try:
                await asyncio.sleep(1)
            except asyncio.CancelledError:
                raise KeyError from None

    with pytest.raises(KeyError):
        await fail_late()
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()
