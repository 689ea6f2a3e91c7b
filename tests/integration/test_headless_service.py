"""A client and two servers behind one name, as behind a headless service of Kubernetes: one port, many addresses."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
from name_server import name_server

from xuanzang.client import AsyncTranslationClient, Translation
from xuanzang.server.settings import split_address

NAME = "xuanzang-server.translation.svc.cluster.local"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has every address of 127.0.0.0/8")


@pytest.fixture
async def pods(start_server: Any) -> AsyncIterator[list[Any]]:
    """Yield two servers on two addresses and one port."""
    async with start_server(address="127.0.0.2:0") as first:
        port = split_address(first.address).port
        async with start_server(address=f"127.0.0.3:{port}") as second:
            yield [first, second]


@pytest.fixture
async def service(pods: list[Any]) -> AsyncIterator[AsyncTranslationClient]:
    """Yield a client that knows the name of both."""
    port = split_address(pods[0].address).port
    async with (
        name_server(["127.0.0.2", "127.0.0.3"]) as names,
        AsyncTranslationClient(names.target(NAME, port)) as client,
    ):
        yield client
        assert names.questions >= 1


async def served(pod: Any) -> float:
    scrape = await pod.scrape()
    return float(scrape.value("nmt_requests_total"))


async def until_both_serve(pods: list[Any], service: AsyncTranslationClient) -> None:
    # The first calls may go to the address that was connected first.
    while 0 in [await served(pod) for pod in pods]:
        await service.translate_one("你好。")


async def test_calls_are_spread_over_the_addresses_of_a_name(pods: list[Any], service: AsyncTranslationClient) -> None:
    await until_both_serve(pods, service)
    before = [await served(pod) for pod in pods]
    for _ in range(10):
        await service.translate_one("你好。")
    assert [await served(pod) - count for pod, count in zip(pods, before, strict=True)] == [5, 5]


async def test_no_call_fails_while_one_of_the_addresses_drains(
    pods: list[Any], service: AsyncTranslationClient
) -> None:
    await until_both_serve(pods, service)
    calls = [asyncio.ensure_future(service.translate_one("我有一只猫。" * 3)) for _ in range(30)]
    await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
    draining = asyncio.ensure_future(pods[0].server.drain())
    while not draining.done():
        calls.append(asyncio.ensure_future(service.translate_one("你好。")))
        await calls[-1]
    calls += [asyncio.ensure_future(service.translate_one("你好。")) for _ in range(10)]
    assert all(isinstance(answer, Translation) for answer in await asyncio.gather(*calls))
