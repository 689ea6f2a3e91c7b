"""Calls that threads leave for an event loop."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest

from xuanzang.server.engine.threads import LoopInbox


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
