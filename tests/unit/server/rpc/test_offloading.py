"""The pool for large messages: callers take turns, and a stopping server says so."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from xuanzang.server.engine.errors import DrainingError
from xuanzang.server.rpc.offloading import Offloader


class HeldWork:
    """Work that lasts until it is released."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self._released = threading.Event()

    def __call__(self) -> str:
        self.began.set()
        assert self._released.wait(10)
        return threading.current_thread().name

    def release(self) -> None:
        self._released.set()


@pytest.fixture
def offloader() -> Offloader:
    return Offloader()


async def began(work: HeldWork) -> None:
    assert await asyncio.to_thread(work.began.wait, 10)


async def test_a_caller_with_much_work_leaves_a_thread_to_others(offloader: Offloader) -> None:
    mine = [HeldWork() for _ in range(8)]
    running = [asyncio.ensure_future(offloader.run(work, caller="many")) for work in mine]
    await began(mine[0])
    await offloader.run(lambda: None, caller="other")
    assert not any(work.began.is_set() for work in mine[1:])
    for work in mine:
        work.release()
    assert all(name.startswith("messages") for name in await asyncio.gather(*running))


@pytest.mark.parametrize("work", [lambda: None, HeldWork()])
async def test_a_closed_pool_refuses_work_as_the_server_stops(offloader: Offloader, work: Callable[[], object]) -> None:
    offloader.close()
    with pytest.raises(DrainingError):
        await offloader.run(work, caller="a")


async def test_work_that_waits_for_its_turn_is_refused_at_the_close(offloader: Offloader) -> None:
    held, waiting = HeldWork(), HeldWork()
    running = asyncio.ensure_future(offloader.run(held, caller="a"))
    await began(held)
    next_one = asyncio.ensure_future(offloader.run(waiting, caller="a"))
    await asyncio.sleep(0)
    offloader.close()
    held.release()
    await running
    with pytest.raises(DrainingError):
        await next_one
