"""Loads on a server, and a record of every request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import perf_counter

from xuanzang.client.loadtest.workload import Workload

Send = Callable[[list[str]], Awaitable[str]]
"""Sends the texts of a request and returns the name of the status code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One load: open with a rate, or closed with callers."""

    seconds: float
    """Duration of sending, the warm-up included."""
    warm_up_seconds: float
    """Part at the start whose requests do not count."""
    rate: float | None = None
    """Requests per second of an open loop with Poisson arrivals: callers that do not wait for one another."""
    callers: int = 0
    """Callers of a closed loop: each sends its next request when it has its answer."""

    def __str__(self) -> str:
        """Return the load in a word or two."""
        return f"{self.callers} callers" if self.rate is None else f"{self.rate:g}/s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One request; times are seconds after the start of the load."""

    due: float
    """Time at which it was to be sent; latency counts from here, so a sender that lags hides nothing."""
    sent: float
    ended: float
    code: str
    """Name of its status code."""
    texts: int
    characters: int
    """Characters of all its texts."""


async def run_load(load: Load, workload: Workload, send: Send, advance: Callable[[], None]) -> list[Record]:
    """Put a load on a server and wait for all answers.

    Args:
        load: Load.
        workload: Requests.
        send: Sender of a request.
        advance: Called after each request.
    """
    begun = perf_counter()
    records: list[Record] = []

    async def request(due: float) -> None:
        texts = workload.request()
        sent = perf_counter() - begun
        code = await send(texts)
        ended = perf_counter() - begun
        characters = sum(map(len, texts))
        records.append(Record(due=due, sent=sent, ended=ended, code=code, texts=len(texts), characters=characters))
        advance()

    async def caller() -> None:
        while (now := perf_counter() - begun) < load.seconds:
            await request(now)

    async with asyncio.TaskGroup() as tasks:
        if load.rate is None:
            for _ in range(load.callers):
                tasks.create_task(caller())
        else:
            for due in workload.arrivals(load.rate, load.seconds):
                await asyncio.sleep(max(0.0, begun + due - perf_counter()))
                tasks.create_task(request(due))
    return records
