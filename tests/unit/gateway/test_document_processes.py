"""Processes that read documents: their limits, their end, and how callers share them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from xuanzang.client.documents import DocumentError, DocumentFile
from xuanzang.gateway.documents.processes import DocumentCostError, DocumentProcesses
from xuanzang.gateway.documents.turns import Turns
from xuanzang.gateway.errors import RefusedError

ENDLESS = partial(exec, "while True: pass")


@pytest.fixture
async def processes() -> AsyncIterator[DocumentProcesses]:
    started = DocumentProcesses(processes=2, cpu_seconds=0.3, memory_bytes=2**29)
    yield started
    await started.close()


async def test_a_document_is_read_and_written_by_one_process_after_the_other(processes: DocumentProcesses) -> None:
    file = DocumentFile.of("# 猫\n".encode(), suffix=".md")
    texts = await processes.run(file.texts, caller="ann")
    assert list(texts.places) == ["猫"]
    assert await processes.run(partial(file.written, {"猫": "cat"}), caller="ann") == b"# cat\n"
    first, second = [await processes.run(os.getpid, caller="ann") for _ in range(2)]
    assert first == second != os.getpid()


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (ENDLESS, "more than 0.3 seconds of CPU time"),
        (partial(bytes, 2**30), "more memory than a document may have"),
        (partial(exec, "def f(): f()\nf()", {}), "nested too deep"),
        (os.abort, "cannot be read or written within 536870912 bytes of memory"),
    ],
)
async def test_what_costs_too_much_is_refused_and_the_next_is_answered(
    processes: DocumentProcesses, work: Callable[[], Any], message: str
) -> None:
    with pytest.raises(DocumentCostError, match=message):
        await processes.run(work, caller="ann")
    assert await processes.run(partial(int, "7"), caller="ann") == 7


async def test_what_is_wrong_with_a_document_is_said(processes: DocumentProcesses) -> None:
    with pytest.raises(DocumentError, match="the document: not JSON"):
        await processes.run(DocumentFile.of(b"{", suffix=".json").texts, caller="ann")


async def test_an_unexpected_error_is_logged_without_what_it_says(
    processes: DocumentProcesses, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(RefusedError, match="the gateway failed"):
        await processes.run(partial(int, "secret"), caller="ann")
    assert "secret" not in caplog.text
    assert [record.type for record in caplog.records] == ["ValueError"]  # type: ignore[attr-defined]


async def test_what_is_cancelled_is_killed(tmp_path: Path) -> None:
    processes = DocumentProcesses(processes=1, cpu_seconds=60, memory_bytes=2**29)
    pid = await processes.run(os.getpid, caller="ann")
    begun = tmp_path / "begun"
    work = partial(exec, f"open({str(begun)!r}, 'w')\nwhile True: pass")
    task = asyncio.create_task(processes.run(work, caller="ann"))
    while not begun.exists():  # noqa: ASYNC110 - nothing else tells of it
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert await processes.run(partial(int, "7"), caller="ann") == 7
    await processes.close()


async def test_a_process_that_has_grown_ends_with_its_document(processes: DocumentProcesses) -> None:
    first = await processes.run(os.getpid, caller="ann")
    await processes.run(partial(exec, "import builtins; builtins.kept = b'a' * (150 * 2**20)"), caller="ann")
    assert await processes.run(os.getpid, caller="ann") != first


async def test_one_caller_leaves_half_of_the_places_to_others() -> None:
    turns, order = Turns(2), []

    async def take(caller: str, release: asyncio.Event) -> None:
        async with turns.of(caller):
            order.append(caller)
            await release.wait()

    release = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for caller in ("ann", "ann", "bob"):
            group.create_task(take(caller, release))
        while len(order) < 2:  # noqa: ASYNC110 - nothing else tells of it
            await asyncio.sleep(0)
        assert order == ["ann", "bob"]
        assert (turns.limit_of("eve"), Turns(2).limit_of("eve")) == ("2 documents", None)
        release.set()
    assert order == ["ann", "bob", "ann"]
