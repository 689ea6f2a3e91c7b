"""Processes that read documents: their limits, their end, and how callers share them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from xuanzang.documents import DocumentError, DocumentFile, Limits
from xuanzang.gateway.documents.translator import DocumentCostError, DocumentProcesses
from xuanzang.gateway.errors import RefusedError
from xuanzang.gateway.limits import Holder, SharedLimit, Shares

ANN = Holder("127.0.0.1", "ann")


async def done(processes: DocumentProcesses, work: str, *arguments: Any) -> Any:
    """Return the value of some work of `hostile_work`."""
    result, _ = await processes.run(work, {"arguments": arguments}, b"", holder=ANN)
    return result["value"]


def hostile(processes: int, cpu_seconds: float) -> DocumentProcesses:
    return DocumentProcesses(
        processes=SharedLimit("processes", total=processes, shares=Shares(address=1, caller=0.5)),
        cpu_seconds=cpu_seconds,
        memory_bytes=2**29,
        worker="tests.support.hostile_work",
    )


@pytest.fixture
async def processes() -> AsyncIterator[DocumentProcesses]:
    started = hostile(2, 0.3)
    yield started
    await started.close()


async def test_a_document_is_read_and_written_by_one_process_after_the_other(processes: DocumentProcesses) -> None:
    file = DocumentFile.of("# 猫\n".encode(), suffix=".md")
    texts = await processes.texts(file, holder=ANN)
    assert texts == file.texts()
    assert (await processes.written(file, {"猫": "cat"}, holder=ANN)).content == b"# cat\n"
    first, second = [await done(processes, "pid") for _ in range(2)]
    assert first == second != os.getpid()


async def test_texts_come_and_go_as_they_are(processes: DocumentProcesses) -> None:
    file = DocumentFile.of(b'{"a": ["b", null]}', suffix=".json", columns=("a",), limits=Limits(depth=3))
    assert await processes.texts(file, holder=ANN) == file.texts()
    for text in ("\ud800\udc00", "\x00\u2028", '"\\', "猫" * 100_000):
        assert await processes.written(file, {"b": text}, holder=ANN) == file.rewritten({"b": text})


async def test_what_costs_too_much_is_refused_and_the_next_is_answered(processes: DocumentProcesses) -> None:
    for work, message in (
        ("endless", "more than 0.3 seconds of CPU time"),
        ("large", "more memory than a document may have"),
        ("deep", "nested too deep"),
        ("abort", "cannot be read or written within 536870912 bytes of memory"),
    ):
        with pytest.raises(DocumentCostError, match=message):
            await done(processes, work)
        assert await done(processes, "number", "7") == 7
    with pytest.raises(DocumentError, match="the document: not JSON"):
        await processes.texts(DocumentFile.of(b"{", suffix=".json"), holder=ANN)


async def test_an_unexpected_error_is_logged_without_what_it_says(
    processes: DocumentProcesses, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(RefusedError, match="the gateway failed"):
        await done(processes, "number", "secret")
    assert "secret" not in caplog.text
    assert [record.type for record in caplog.records] == ["ValueError"]  # type: ignore[attr-defined]


async def test_processes_that_were_killed_while_idle_fail_no_caller(processes: DocumentProcesses) -> None:
    first = await done(processes, "pid")
    os.kill(first, signal.SIGKILL)
    second = await done(processes, "pid")
    assert second != first
    os.kill(second, signal.SIGSTOP)
    os.kill(second, signal.SIGKILL)
    file = DocumentFile.of("猫".encode() * 100_000, suffix=".txt")
    assert await processes.texts(file, holder=ANN) == file.texts()


async def test_what_is_cancelled_is_killed(tmp_path: Path) -> None:
    processes = hostile(1, 60)
    pid = await done(processes, "pid")
    begun = tmp_path / "begun"
    task = asyncio.create_task(done(processes, "mark", str(begun)))
    while not begun.exists():  # noqa: ASYNC110 - nothing else tells of it
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert await done(processes, "number", "7") == 7
    await processes.close()


async def test_a_process_that_has_grown_ends_with_its_document() -> None:
    # On a slow machine so much memory takes more than the CPU time of the others here.
    processes = hostile(2, 10.0)
    first = await done(processes, "pid")
    await done(processes, "grow", 150 * 2**20)
    assert await done(processes, "pid") != first
    await processes.close()
