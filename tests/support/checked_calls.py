"""Calls through the SDK while servers come and go: each must have one answer, and the right one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import cycle
from time import perf_counter

from xuanzang.client import AsyncTranslationClient, StreamedTranslation, TranslationError
from xuanzang.loadtest.loops import closed_loop, due_times

TEXTS = tuple(
    f"{person}{verb}{thing}。"
    for person in ("我", "他们", "老师", "我的朋友")
    for verb in ("有", "想买", "昨天看到了", "不喜欢")
    for thing in ("一只猫", "三本书", "很多红苹果", "这张桌子", "一辆新汽车", "北京的地图")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One call."""

    due: float
    """Time at which it was due, on the clock of `time.perf_counter`."""
    ended: float
    """Time of its end."""
    fault: str
    """Its faults; empty if there are none."""


class CheckedCalls:
    """Callers of one client, and what became of their calls."""

    def __init__(self, client: AsyncTranslationClient, expected: Mapping[str, str]) -> None:
        """Take the client and the right answers.

        Args:
            expected: Translations by text, as `answers` returns them.
        """
        self._client, self._expected, self._texts = client, expected, cycle(expected)
        self.outcomes: list[Outcome] = []

    @property
    def faults(self) -> list[str]:
        """Faults of calls, in the order of their ends."""
        return [each.fault for each in self.outcomes if each.fault]

    async def open_loop(self, rate: float, seconds: float) -> None:
        """Call at times that do not depend on the answers.

        Args:
            rate: Mean calls per second, arrivals of a Poisson process.
            seconds: Duration of the calling; the last answers are awaited.
        """
        async with asyncio.TaskGroup() as group:
            async for due in due_times(rate, seconds, random.Random(0)):
                group.create_task(self._call(due))

    async def closed_loop(self, callers: int, is_over: Callable[[], bool]) -> None:
        """Let each caller call again as soon as it has its answer.

        Args:
            is_over: Whether no more calls are to be made.
        """
        await closed_loop(self._call, callers=callers, is_over=is_over)

    async def _call(self, due: float) -> None:
        text = next(self._texts)
        try:
            translation = await self._client.translate_one(text)
        except TranslationError as error:
            fault = f"{type(error).__name__}: {error.message}"
        else:
            fault = "" if translation.text == self._expected[text] else f"another answer to {text}"
        self.outcomes.append(Outcome(due=due, ended=perf_counter(), fault=fault))


async def answers(client: AsyncTranslationClient) -> dict[str, str]:
    """Return the translations of the texts, as servers give them that nobody disturbs."""
    translations = await client.translate(TEXTS)
    return {text: translation.text for text, translation in zip(TEXTS, translations, strict=True)}


async def stream_faults(client: AsyncTranslationClient, expected: Mapping[str, str], number: int) -> list[str]:
    """Translate texts on one stream, and return what is wrong: results that are lost, doubled or others.

    Args:
        expected: Translations by text.
    """
    texts = [tuple(expected)[index % len(expected)] for index in range(number)]
    results = [each async for each in client.translate_stream(texts, max_in_flight=16)]
    faults = [fault for each in results if (fault := _fault_of(each, expected))]
    if sorted(each.index for each in results) != list(range(number)):
        faults.append(f"{len(results)} results of {number} texts, {len({each.index for each in results})} of them once")
    return faults


def _fault_of(result: StreamedTranslation, expected: Mapping[str, str]) -> str:
    if result.error is not None:
        return f"result {result.index}: {type(result.error).__name__}: {result.error.message}"
    return "" if result.translation.text == expected[result.source] else f"result {result.index}: another answer"


async def capacity(client: AsyncTranslationClient, expected: Mapping[str, str], seconds: float) -> float:
    """Return the answers per second of a closed loop of 32 callers."""
    calls, began = CheckedCalls(client, expected), perf_counter()
    await calls.closed_loop(32, lambda: perf_counter() - began > seconds)
    return len(calls.outcomes) / (perf_counter() - began)
