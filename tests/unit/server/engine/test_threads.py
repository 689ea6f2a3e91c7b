"""Turns of callers in a pool of threads: one thread for each, until it ends; a stopping server says so."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from xuanzang.server.engine import threads
from xuanzang.server.engine.errors import DrainingError
from xuanzang.server.engine.threads import CallerThreads, LoopInbox, Threads
from xuanzang.server.engine.types import CallerId

MANY, OTHER = CallerId("many"), CallerId("other")


class HeldWork:
    """Work that lasts until it is released."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self._released = threading.Event()

    def __call__(self) -> str:
        self.began.set()
        assert self._released.wait(120)
        return threading.current_thread().name

    def release(self) -> None:
        self._released.set()


@pytest.fixture
def pool() -> CallerThreads:
    return CallerThreads(Threads(2, "messages"), pauses=True)


async def began(work: HeldWork) -> None:
    assert await asyncio.to_thread(work.began.wait, 10)


@pytest.mark.parametrize("name", ["", "{}"], ids=["one caller", "names of an address"])
async def test_a_caller_with_much_work_leaves_a_thread_to_others(pool: CallerThreads, name: str) -> None:
    mine = [HeldWork() for _ in range(8)]
    running = [
        asyncio.ensure_future(pool.run(work, caller=CallerId("many", name.format(number))))
        for number, work in enumerate(mine)
    ]
    await began(mine[0])
    await pool.run(lambda: None, caller=OTHER)
    assert not any(work.began.is_set() for work in mine[1:])
    for work in mine:
        work.release()
    assert all(name.startswith("messages") for name in await asyncio.gather(*running))


async def test_a_name_with_much_work_lets_the_other_names_of_its_address_go_between(pool: CallerThreads) -> None:
    order, held = list[str](), HeldWork()
    first = asyncio.ensure_future(pool.run(held, caller=CallerId("a", "many")))
    await began(held)
    names = ["many", "many", "many", "single"]
    rest = [pool.run(partial(order.append, name), caller=CallerId("a", name)) for name in names]
    waiting = asyncio.gather(first, *rest)
    await asyncio.sleep(0)
    held.release()
    await waiting
    assert order.index("single") <= 1


async def test_the_turn_of_a_cancelled_call_lasts_until_its_thread_ends(pool: CallerThreads) -> None:
    mine = [HeldWork() for _ in range(4)]
    running = [asyncio.ensure_future(pool.run(work, caller=MANY)) for work in mine]
    await began(mine[0])
    for each in running[:3]:
        each.cancel()
    await asyncio.gather(*running[:3], return_exceptions=True)
    await pool.run(lambda: None, caller=OTHER)
    assert not any(work.began.is_set() for work in mine[1:])
    for work in mine:
        work.release()
    await running[3]
    assert [work.began.is_set() for work in mine] == [True, False, False, True]


async def test_a_cancelled_call_that_no_thread_has_begun_gives_its_turn_back(pool: CallerThreads) -> None:
    held = [HeldWork(), HeldWork()]
    others = [asyncio.ensure_future(pool.run(work, caller=CallerId(str(id(work))))) for work in held]
    for work in held:
        await began(work)
    never, next_one = HeldWork(), HeldWork()
    cancelled = asyncio.ensure_future(pool.run(never, caller=MANY))
    following = asyncio.ensure_future(pool.run(next_one, caller=MANY))
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.wait([cancelled])
    for work in (*held, next_one):
        work.release()
    await asyncio.gather(*others, following)
    assert not never.began.is_set()


async def test_at_the_close_work_that_waits_for_its_turn_or_comes_later_is_refused(pool: CallerThreads) -> None:
    held = HeldWork()
    running = asyncio.ensure_future(pool.run(held, caller=MANY))
    await began(held)
    refused = [asyncio.ensure_future(pool.run(HeldWork(), caller=MANY))]
    await asyncio.sleep(0)
    pool.close()
    held.release()
    await running
    refused += [asyncio.ensure_future(pool.run(work, caller=MANY)) for work in (lambda: "", HeldWork())]
    for each in refused:
        with pytest.raises(DrainingError):
            await each


@pytest.mark.parametrize(
    ("wall", "processor", "pause"),
    [(0.020, 0.010, 0.03), (0.0101, 0.010, 0.0), (0.002, 0.001, 0.0)],
    ids=["contended", "alone", "short"],
)
async def test_contended_work_is_followed_by_a_pause_for_others(
    pool: CallerThreads, monkeypatch: pytest.MonkeyPatch, wall: float, processor: float, pause: float
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(threads, "_timed", lambda work: (work(), threads._Spent(wall, processor)))
    with monkeypatch.context() as patched:
        patched.setattr(asyncio, "sleep", sleep)
        works = [pool.run(partial(abs, number), caller=MANY) for number in range(4)]
        assert await asyncio.gather(*works) == [0, 1, 2, 3]
    # The first ones of a second are free.
    assert slept == pytest.approx([pause] * len(slept))
    assert bool(slept) == bool(pause)


def test_a_thread_that_the_system_refuses_is_want_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(MemoryError):
        Threads(1, "test").submit(int)


async def test_calls_of_many_threads_are_all_made_each_threads_in_its_order() -> None:
    inbox, made, done = LoopInbox.of_running_loop(), list[tuple[int, int]](), asyncio.Event()

    def note(thread: int, number: int) -> None:
        made.append((thread, number))
        if len(made) == 4000:
            done.set()

    def leave(thread: int) -> None:
        for number in range(1000):
            inbox.leave(note, thread, number)

    threads = [threading.Thread(target=leave, args=(thread,)) for thread in range(4)]
    for each in threads:
        each.start()
    await done.wait()
    for thread in range(4):
        assert [number for one, number in made if one == thread] == list(range(1000))


async def test_a_loop_has_one_inbox() -> None:
    assert LoopInbox.of_running_loop() is LoopInbox.of_running_loop()


async def test_a_call_that_fails_is_reported_and_the_next_is_made() -> None:
    reported, made = list[dict[str, Any]](), asyncio.Event()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))

    def fail() -> None:
        raise ArithmeticError("broken")

    inbox = LoopInbox.of_running_loop()
    inbox.leave(fail)
    inbox.leave(made.set)
    await made.wait()
    [context] = reported
    assert isinstance(context["exception"], ArithmeticError)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_after_a_wake_that_found_no_memory_the_next_call_wakes_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    inbox, system, done = LoopInbox.of_running_loop(), threads._SYSTEM, asyncio.Event()

    class NoMemory:
        @staticmethod
        def write(*_: object) -> None:
            raise MemoryError

    monkeypatch.setattr(threads, "_SYSTEM", NoMemory)
    with pytest.raises(MemoryError):
        inbox.leave(done.set)
    monkeypatch.setattr(threads, "_SYSTEM", system)
    inbox.leave(done.set)
    async with asyncio.timeout(60):
        await done.wait()


def test_a_closed_loop_gets_no_calls_and_its_inbox_goes_with_it(caplog: pytest.LogCaptureFixture) -> None:
    async def inbox() -> LoopInbox:
        return LoopInbox.of_running_loop()

    loop = asyncio.new_event_loop()
    left = loop.run_until_complete(inbox())
    descriptors = open_files()
    loop.close()
    left.leave(print)
    assert "the event loop is closed" in caplog.text
    gone = weakref.ref(left)
    del left, loop
    gc.collect()
    assert gone() is None
    assert open_files() < descriptors
