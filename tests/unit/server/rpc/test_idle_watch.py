"""Tests of the limit on many waits."""

from __future__ import annotations

import asyncio

import pytest

from xuanzang.server.rpc.interceptors.idle_watch import IdleWatch


async def test_waits_that_end_in_time_give_their_results() -> None:
    watch = IdleWatch(60)
    assert await asyncio.gather(*(watch.limited(asyncio.sleep(0, number)) for number in range(50))) == list(range(50))


async def test_every_wait_that_takes_too_long_is_ended_and_no_other() -> None:
    watch, answer = IdleWatch(0.05), asyncio.get_running_loop().create_future()
    first = [asyncio.create_task(watch.limited(asyncio.Event().wait())) for _ in range(3)]
    ended = await asyncio.gather(*first, return_exceptions=True)
    assert [type(error) for error in ended] == [TimeoutError] * 3
    later = asyncio.create_task(watch.limited(answer))
    await asyncio.sleep(0)
    answer.set_result("in time")
    assert await later == "in time"
    with pytest.raises(TimeoutError):
        await watch.limited(asyncio.Event().wait())


async def test_a_wait_that_its_caller_cancels_is_cancelled() -> None:
    watch = IdleWatch(60)
    waiting = asyncio.create_task(watch.limited(asyncio.Event().wait()))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_task_goes_on_after_its_wait_took_too_long() -> None:
    async def twice(watch: IdleWatch) -> int:
        with pytest.raises(TimeoutError):
            await watch.limited(asyncio.Event().wait())
        return await watch.limited(asyncio.sleep(0, 7))

    assert await asyncio.create_task(twice(IdleWatch(0.02))) == 7
