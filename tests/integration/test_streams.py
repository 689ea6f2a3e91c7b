"""Streams of any texts over a real server: every text has its result, and none waits for ever."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from losing_relay import LosingRelay

from xuanzang.client import AsyncTranslationClient, InvalidRequestError, StreamedTranslation, TranslationClient

VALID = "我有一只猫。"
# As a file in another encoding is read, and what the server refuses.
UNDECODABLE, REFUSED = "\udcb0\udca1", "猫" * 401
MAX_TEXTS = 4000
MAX_TRANSLATED, MAX_REFUSED = 100, 50
"""Texts of a stream that take time."""


def texts_of(count: int, shares: tuple[float, float], seed: int) -> list[str]:
    """Return texts in random order: a share of undecodable ones, one of refused ones, and valid ones."""
    undecodable, refused = shares
    draw = random.Random(seed)
    texts, left = [], {REFUSED: MAX_REFUSED, VALID: MAX_TRANSLATED}
    for _ in range(count):
        chance = draw.random()
        text = UNDECODABLE if chance < undecodable else REFUSED if chance < undecodable + refused else VALID
        if text in left:
            left[text] -= 1
            text = text if left[text] >= 0 else UNDECODABLE
        texts.append(text)
    return texts


def check(texts: Sequence[str], results: Sequence[StreamedTranslation], *, ordered: bool) -> None:
    """Every text has one result: a translation if it is valid, else an error."""
    if ordered:
        assert [each.index for each in results] == list(range(len(texts)))
    by_index = sorted(results, key=lambda each: each.index)
    assert [(each.index, each.source) for each in by_index] == list(enumerate(texts))
    for each in by_index:
        assert (each.error is None) == (each.source == VALID), each.error
        assert each.error is None or isinstance(each.error, InvalidRequestError)


STREAMS = st.tuples(
    st.one_of(st.integers(1, 300), st.integers(1, MAX_TEXTS)),
    st.sampled_from([(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (0.5, 0.0), (0.9, 0.1), (0.3, 0.3)]),
    st.sampled_from([1, 2, 7, 64, 127, 128]),
    st.booleans(),
    st.integers(0, 1000),
)


async def collect(address: str, texts: Sequence[str], *, is_asyncio: bool, **options: Any) -> list[StreamedTranslation]:
    """Return all results of a stream, in their order."""

    def blocking() -> list[StreamedTranslation]:
        with TranslationClient(address) as client:
            return list(client.translate_stream(iter(texts), **options))

    if not is_asyncio:
        return await asyncio.to_thread(blocking)
    async with AsyncTranslationClient(address) as client:
        return [each async for each in client.translate_stream(iter(texts), **options)]


@pytest.mark.parametrize("is_asyncio", [False, True])
async def test_every_text_of_any_stream_has_a_result(start_server: Any, is_asyncio: bool) -> None:
    async with start_server(max_stream_texts=32, max_content_characters=400) as server:
        loop = asyncio.get_running_loop()

        @settings(max_examples=10)
        @given(STREAMS)
        @example((129, (1.0, 0.0), 128, False, 0))
        @example((129, (0.0, 1.0), 128, True, 0))
        @example((300, (1.0, 0.0), 1, True, 0))
        @example((MAX_TEXTS, (1.0, 0.0), 128, False, 0))
        @example((MAX_TEXTS, (0.9, 0.1), 1, True, 1))
        def every_text_has_one(stream: tuple[int, tuple[float, float], int, bool, int]) -> None:
            count, shares, max_in_flight, ordered, seed = stream
            texts = texts_of(count, shares, seed)
            given_up = collect(
                server.address, texts, is_asyncio=is_asyncio, ordered=ordered, max_in_flight=max_in_flight, timeout=20
            )
            results = asyncio.run_coroutine_threadsafe(given_up, loop).result(timeout=60)
            check(texts, results, ordered=ordered)

        await asyncio.to_thread(every_text_has_one)


async def test_the_next_text_may_wait_for_the_result_of_a_refused_one(start_server: Any) -> None:
    async with start_server(max_content_characters=400) as server, AsyncTranslationClient(server.address) as client:
        results: asyncio.Queue[StreamedTranslation] = asyncio.Queue()

        async def one_at_a_time() -> AsyncIterator[str]:
            for text in (UNDECODABLE, REFUSED, UNDECODABLE, VALID, UNDECODABLE):
                yield text
                assert (await results.get()).source == text

        async with asyncio.timeout(60):
            async for each in client.translate_stream(one_at_a_time(), max_in_flight=1):
                results.put_nowait(each)


@pytest.mark.parametrize("is_asyncio", [False, True])
async def test_a_stream_that_the_server_ended_because_it_was_idle_goes_on(start_server: Any, is_asyncio: bool) -> None:
    async with start_server(stream_idle_seconds=0.2) as server:
        aborted = asyncio.Event()

        async def until_idle() -> None:
            async with asyncio.timeout(60):
                while not aborted.is_set():
                    with suppress(AssertionError):  # there is no such series yet
                        (await server.scrape()).value("grpc_server_handled_total", grpc_code="ABORTED")
                        aborted.set()

        watching = asyncio.create_task(until_idle())

        async def slow() -> AsyncIterator[str]:
            yield VALID
            await aborted.wait()
            yield VALID

        loop = asyncio.get_running_loop()

        def slow_in_thread() -> Iterator[str]:
            yield VALID
            asyncio.run_coroutine_threadsafe(aborted.wait(), loop).result(timeout=60)
            yield VALID

        def blocking() -> list[StreamedTranslation]:
            with TranslationClient(server.address) as client:
                return list(client.translate_stream(slow_in_thread(), timeout=60))

        if is_asyncio:
            async with AsyncTranslationClient(server.address) as client:
                results = [each async for each in client.translate_stream(slow(), timeout=60)]
        else:
            results = await asyncio.to_thread(blocking)
        await watching
        assert [each.error for each in results] == [None, None]


@pytest.mark.parametrize("is_asyncio", [False, True])
async def test_a_stream_that_breaks_while_it_is_idle_goes_on(start_server: Any, is_asyncio: bool) -> None:
    """Between two texts there is more time than one answer may take, and all connections break meanwhile."""
    timeout, pause = 2.0, 2.5
    async with start_server() as server:
        relay = LosingRelay(server.address)
        loop = asyncio.get_running_loop()

        async def idle() -> None:
            await asyncio.sleep(pause)
            relay.cut()

        async def slow() -> AsyncIterator[str]:
            yield VALID
            await idle()
            yield VALID

        def slow_in_thread() -> Iterator[str]:
            yield VALID
            asyncio.run_coroutine_threadsafe(idle(), loop).result(timeout=60)
            yield VALID

        def blocking() -> list[StreamedTranslation]:
            with TranslationClient(relay.address) as client:
                client.translate_one(VALID)
                return list(client.translate_stream(slow_in_thread(), timeout=timeout))

        async with relay.serving():
            if is_asyncio:
                async with AsyncTranslationClient(relay.address) as client:
                    await client.translate_one(VALID)
                    results = [each async for each in client.translate_stream(slow(), timeout=timeout)]
            else:
                results = await asyncio.to_thread(blocking)
            assert [each.error for each in results] == [None] * 2
            assert relay.connections >= 2
