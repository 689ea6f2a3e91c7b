"""A load: requests and their times, and a record of each."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from time import perf_counter
from typing import Self

from xuanzang.loadtest.loops import closed_loop, due_times

Send = Callable[[list[str], int], Awaitable[str]]
"""Sends the texts of a request under the name with a number, and returns the name of the status code, or EMPTY."""
EMPTY = "EMPTY"
"""Code of an answer that lacks a translation of a text."""
_ANSWERS_PER_CALLER = 3
"""Minimum of a closed loop, on average: fewer would not hold whole rounds of its callers."""


@dataclass(frozen=True, slots=True)
class Mix:
    """Sizes of requests and how often each comes."""

    sizes: tuple[int, ...]
    """Texts of a request."""
    weights: tuple[float, ...]
    """Weight of each size."""

    @classmethod
    def parse(cls, words: Sequence[str]) -> Self:
        """Read sizes such as "1:0.9" and "8:0.1"; without a weight each counts 1.

        Raises:
            ValueError: A word has another form, or no size has a weight.
        """
        sizes, weights = [], []
        for word in words:
            size, _, weight = word.partition(":")
            try:
                sizes.append(int(size))
                weights.append(float(weight or 1))
            except ValueError:
                raise ValueError(f"{word!r} is no number of texts, such as 8 or 8:0.1") from None
        if min(sizes) < 1 or min(weights) < 0 or not 0 < sum(weights) < float("inf"):
            raise ValueError("texts per request must be 1 or more, and their weights 0 or more and not all 0")
        return cls(tuple(sizes), tuple(weights))


class Workload:
    """Requests, the same ones for the same seed. Every text is sent once before any is repeated."""

    def __init__(self, texts: Sequence[str], mix: Mix, seed: int) -> None:
        """Take what requests are made of.

        Args:
            texts: Texts, at least one.
            mix: Texts per request.
        """
        # Two, or the times would depend on when requests are drawn.
        self._random, self.times = random.Random(seed), random.Random(seed)  # noqa: S311 - nothing secret
        self._mix, self._texts = mix, self._endless(texts)

    def request(self) -> list[str]:
        """Draw the texts of a request."""
        [size] = self._random.choices(self._mix.sizes, self._mix.weights)
        return list(islice(self._texts, size))

    def _endless(self, texts: Sequence[str]) -> Iterator[str]:
        while True:
            yield from self._random.sample(texts, len(texts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One load: open with a rate, or closed with callers."""

    seconds: float
    """Duration of sending, the warm-up included; a closed loop goes on until there are three answers a caller."""
    warm_up_seconds: float
    """Part at the start whose requests do not count."""
    rate: float | None = None
    """Requests per second of an open loop with Poisson arrivals: callers that do not wait for one another."""
    callers: int = 0
    """Callers of a closed loop: each sends its next request when it has its answer."""
    names: int = 1
    """Names of the callers: those of an open loop take turns, a caller of a closed loop has one."""

    def __str__(self) -> str:
        """Return the load in a word or two."""
        load = f"{self.callers} callers" if self.rate is None else f"{self.rate:g}/s"
        return load if self.names == 1 else f"{load}, {self.names} names"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One request; times are seconds after the start of the load."""

    due: float
    """Time that it was due; latency counts from here, so a sender that lags hides nothing."""
    sent: float
    ended: float
    code: str
    """Name of its status code, or EMPTY."""
    texts: int
    characters: int
    """Characters of all its texts."""


async def run_load(load: Load, workload: Workload, send: Send, advance: Callable[[], None]) -> list[Record]:
    """Put a load on a server and wait for all answers.

    Args:
        advance: Called after each request.
    """
    records: list[Record] = []
    names = deque(number % load.names for number in range(max(load.callers, load.names)))
    begun = perf_counter()

    async def request(due: float) -> None:
        texts, name = workload.request(), names.popleft()
        if load.rate is not None:
            names.append(name)
        sent = perf_counter()
        code = await send(texts, name)
        if load.rate is None:
            names.append(name)
        times = {"due": due - begun, "sent": sent - begun, "ended": perf_counter() - begun}
        records.append(Record(**times, code=code, texts=len(texts), characters=sum(map(len, texts))))
        advance()

    if load.rate is None:
        minimum = _ANSWERS_PER_CALLER * load.callers
        await closed_loop(
            request,
            callers=load.callers,
            is_over=lambda: perf_counter() - begun >= load.seconds and len(records) >= minimum,
        )
    else:
        async with asyncio.TaskGroup() as tasks:
            async for due in due_times(load.rate, load.seconds, workload.times):
                tasks.create_task(request(due))
    return records
