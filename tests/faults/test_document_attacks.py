"""Documents of hostile texts, from eight callers at once, harm nobody else."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Any

import pytest
from hostile_documents import answered, attack, gateway, hostile_documents, memory
from hostile_texts import repeated
from replicas import Replica

PATH = "/v1/documents?source_language=zh&target_language=en"


@pytest.mark.slow
async def test_hostile_documents_are_answered_and_leave_nothing_behind(start: Callable[..., Replica]) -> None:
    server = start()
    server.ready()
    async with gateway(server.address, "--max-running-documents=8") as (process, port):
        await attack(port, hostile_documents(1000, seed=2), 5)
        before = memory(process)
        statuses, _ = await attack(port, hostile_documents(100_000), 40)
        assert set(statuses) <= {200, 400, 503}
        assert statuses[200] > 0
        assert await answered(port, "/livez") == 200
        assert memory(process) <= 1.2 * before + 2 * 2**27  # two idle processes of at most 128 MiB


async def test_a_gateway_ends_in_time_while_it_reads_documents(start: Callable[..., Replica]) -> None:
    server = start()
    server.ready()
    # Reading takes minutes, which is more than both limits.
    flags = ("--document-cpu-seconds=600", "--drain-timeout-seconds=1", "--max-document-bytes=67108864")
    slow = repeated("# 猫\n", 8_000_000).encode()
    async with gateway(server.address, *flags) as (process, port):
        callers = [asyncio.create_task(_uploaded(port, slow, host=f"127.0.0.{number}")) for number in (10, 11)]
        async with asyncio.timeout(500):
            while memory(process) < 2**28:  # noqa: ASYNC110 - nothing else tells of it
                await asyncio.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            assert await process.wait() == 0
        await asyncio.gather(*callers)


async def _uploaded(port: int, raw: bytes, *, host: str) -> Any:
    try:
        return await answered(port, f"{PATH}&name=a.md", raw, host=host)
    except (OSError, IndexError):
        return None  # the gateway has ended
