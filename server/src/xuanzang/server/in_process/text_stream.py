"""Many texts in translation at once, and their results as they finish, or in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import Any

from xuanzang.server.engine.errors import DrainingError, EngineError
from xuanzang.server.in_process.translations import StreamedTranslation, Translation

_END: Any = object()


class TextStream:
    """Results of texts in translation, a limited number at once. Begins when the first result is asked for."""

    def __init__(
        self,
        texts: Iterable[str] | AsyncIterable[str],
        answer: Callable[[int, str], Awaitable[Translation]],
        *,
        ordered: bool,
        max_in_flight: int,
    ) -> None:
        """Begin nothing yet.

        `answer` translates a text with this index; its EngineErrors are results. In flight are texts that were read and
        have no result that was taken.
        """
        self._texts, self._answer, self._ordered = texts, answer, ordered
        self._room = asyncio.Semaphore(max_in_flight)
        self._done: dict[int, StreamedTranslation] = {}
        self._yielded = 0
        self._changed = asyncio.Event()
        self._fault: Exception | None = None
        self._driver: asyncio.Task[None] | None = None

    async def results(self) -> AsyncGenerator[StreamedTranslation, None]:
        """Yield each result, and give up the texts without one when the caller closes the generator."""
        try:
            while results := await self.take():
                for result in results:
                    yield result
        finally:
            await self.aclose()

    async def take(self) -> list[StreamedTranslation]:
        """Wait for results and return the available ones; none at the end."""
        if self._driver is None:
            self._driver = asyncio.create_task(self._drive())
            self._driver.add_done_callback(lambda _: self._changed.set())
        while not (results := self._ready_results()):
            if self._driver.done():
                self._driver.result()
                if self._fault:
                    fault, self._fault = self._fault, None
                    raise fault
                return []
            self._changed.clear()
            await self._changed.wait()
        for _ in results:
            self._room.release()
        return results

    async def aclose(self) -> None:
        """Give up the texts without results."""
        if self._driver is not None:
            self._driver.cancel()
            await asyncio.gather(self._driver, return_exceptions=True)

    def _ready_results(self) -> list[StreamedTranslation]:
        if not self._ordered:
            results = list(self._done.values())
            self._done.clear()
            return results
        results = []
        while self._yielded in self._done:
            results.append(self._done.pop(self._yielded))
            self._yielded += 1
        return results

    async def _drive(self) -> None:
        """Read the texts, and begin each when there is room."""
        try:
            async with asyncio.TaskGroup() as group, aclosing(_each(self._texts)) as texts:
                index = 0
                try:
                    async for text in texts:
                        await self._room.acquire()
                        group.create_task(self._run(index, text))
                        index += 1
                except Exception as fault:  # noqa: BLE001 - of the iterable, raised after the results before it
                    self._fault = fault
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None

    async def _run(self, index: int, text: str) -> None:
        result: Translation | EngineError
        try:
            result = await self._answer(index, text)
        except DrainingError:
            # No fault of the text: the translator is being closed.
            raise
        except EngineError as error:
            result = error
        self._done[index] = StreamedTranslation(index=index, source=text, result=result)
        self._changed.set()


async def _each(texts: Iterable[str] | AsyncIterable[str]) -> AsyncGenerator[str, None]:
    if isinstance(texts, AsyncIterable):
        async for text in texts:
            yield text
    elif isinstance(texts, Sequence):
        for text in texts:
            yield text
    else:
        # An iterable may wait for something.
        iterator = iter(texts)
        while (read := await asyncio.to_thread(next, iterator, _END)) is not _END:
            yield read
