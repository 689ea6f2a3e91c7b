"""The pool for large messages: callers take turns, and a stopping server says so."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial

import pytest

from xuanzang.server.engine.errors import DrainingError
from xuanzang.server.rpc import offloading
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


@pytest.mark.parametrize(
    ("wall", "processor", "pause"),
    [(0.020, 0.010, 0.03), (0.0101, 0.010, 0.0), (0.002, 0.001, 0.0)],
    ids=["contended", "alone", "short"],
)
async def test_contended_work_is_followed_by_a_pause_for_others(
    offloader: Offloader, monkeypatch: pytest.MonkeyPatch, wall: float, processor: float, pause: float
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(offloading, "_timed", lambda work: (work(), offloading._Spent(wall, processor)))
    with monkeypatch.context() as patched:
        patched.setattr(asyncio, "sleep", sleep)
        works = [offloader.run(partial(abs, number), caller="a") for number in range(4)]
        assert await asyncio.gather(*works) == [0, 1, 2, 3]
    # The first ones of a second are free.
    assert slept == pytest.approx([pause] * len(slept))
    assert bool(slept) == bool(pause)
