"""Times of calls: open loops, whose callers do not wait for one another, and closed loops, whose callers do.

`xuanzang loadtest`, `benchmarks/` and the tests that kill servers make all their loads of these two.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from time import perf_counter
from typing import Any


def poisson_arrivals(rate: float, seconds: float, generator: random.Random) -> Iterator[float]:
    """Draw the arrivals of a Poisson process.

    Args:
        rate: Mean arrivals per second.
        seconds: Length of the process.
        generator: Source of the draws.

    Yields:
        Seconds after the start, ascending.
    """
    due = generator.expovariate(rate)
    while due < seconds:
        yield due
        due += generator.expovariate(rate)


async def due_times(
    rate: float, seconds: float, generator: random.Random, *, tick: float = 0.0
) -> AsyncIterator[float]:
    """Yield the due times of an open loop's calls, each when it has come.

    A call counts from the time that it was due, so that a caller that lags hides nothing. Start each as a task: one
    that is awaited would make those behind it wait.

    Args:
        rate: Mean calls per second.
        seconds: Length of the loop.
        generator: Source of the times, a Poisson process.
        tick: Seconds between two looks at the clock, the maximum delay of a call: of thousands in a second each
            would wake the loop, which costs the cores that caller and server share as much as the calls do.

    Yields:
        Times of `time.perf_counter`, ascending.
    """
    begun, looked = perf_counter(), -1.0
    for arrival in poisson_arrivals(rate, seconds, generator):
        if arrival > looked:
            look = math.ceil(arrival / tick) * tick if tick else arrival
            await asyncio.sleep(max(0.0, begun + look - perf_counter()))
            # A caller that is behind makes all calls that have come due meanwhile, and gets no further behind.
            looked = max(look, perf_counter() - begun)
        yield begun + arrival


async def closed_loop(
    call: Callable[[float], Coroutine[Any, Any, object]], *, callers: int, is_over: Callable[[], bool]
) -> None:
    """Let each caller call again as soon as it has its answer, and wait for the last answers.

    Args:
        call: Makes a call that is due at a time of `time.perf_counter`.
        is_over: Callable that is true after the last call.
    """

    async def repeat() -> None:
        while not is_over():
            await call(perf_counter())

    async with asyncio.TaskGroup() as tasks:
        for _ in range(callers):
            tasks.create_task(repeat())
