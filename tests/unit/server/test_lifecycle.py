from __future__ import annotations

import asyncio
import ctypes
from types import SimpleNamespace

import pytest

from xuanzang.server import __main__ as program
from xuanzang.server import lifecycle


async def test_the_heap_is_trimmed_only_while_the_server_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    idle = iter([False, True, False, True])
    trimmed: list[int] = []
    looked = asyncio.Event()

    def is_idle() -> bool:
        answer = next(idle, None)
        if answer is None:
            looked.set()
        return bool(answer)

    monkeypatch.setattr(lifecycle, "_HEAP_INTERVAL_SECONDS", 0)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(malloc_trim=trimmed.append))
    trimming = asyncio.create_task(lifecycle.trim_heap_when_idle(is_idle))
    await looked.wait()
    trimming.cancel()
    assert trimmed == [0, 0]


async def test_without_glibc_nothing_is_trimmed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace())
    await lifecycle.trim_heap_when_idle(lambda: True)


def test_a_former_command_starts_no_server(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    started = list[object]()
    monkeypatch.setattr(program, "_run_server", started.append)
    assert program.main(["pull", "opus-mt-zh-en"]) == 2
    assert started == []
    assert capsys.readouterr().err.startswith("xuanzang pull: error: xuanzang-server has no such command")
