"""Files that are looked at again and again, whatever a look comes to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from xuanzang.server.watched_files import ReloadedContent, reload_changed, reload_when_changed


class Part(ReloadedContent[str]):
    def __init__(self, file: Path) -> None:
        super().__init__([file], kept="the old keys stay in use", count=lambda _: None)
        self._file = file
        self.reloaded = asyncio.Event()

    @override
    def _read(self) -> str:
        return self._file.read_text(encoding="utf-8")

    @override
    def _take_over(self, content: str) -> None:
        self.reloaded.set()


class Stale(Part):
    @override
    def have_changed(self) -> bool:
        raise OSError("Stale file handle")


async def test_a_part_that_cannot_be_looked_at_takes_no_change_from_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "keys"
    before, broken, after = Part(file), Stale(file), Part(file)
    file.write_text("new")
    await reload_changed([before, broken, after])
    assert [part.reloaded.is_set() for part in (before, broken, after)] == [True, False, True]
    assert "Stale file handle" in caplog.text


async def test_files_are_looked_at_again_after_there_was_no_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [RuntimeError("can't start new thread")]
    to_thread = asyncio.to_thread

    async def start_thread(work: Callable[[], Any]) -> Any:
        if failures:
            raise failures.pop()
        return await to_thread(work)

    part = Part(tmp_path / "keys")
    (tmp_path / "keys").write_text("new")
    monkeypatch.setattr(asyncio, "to_thread", start_thread)
    watching = asyncio.create_task(reload_when_changed([part], interval=0))
    async with asyncio.timeout(30):
        await part.reloaded.wait()
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
