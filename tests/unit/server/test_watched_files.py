"""Files that are looked at again and again, whatever a look comes to."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from xuanzang.server.watched_files import ReloadedContent, reload_changed, reload_when_changed
from xuanzang.server.whole_files import file_system, is_remote, temporary_beside


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


async def test_one_that_cannot_be_seen_hides_no_other_change(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "keys"
    before, broken, after = Part(file), Stale(file), Part(file)
    file.write_text("new")
    await reload_changed([before, broken, after])
    assert [part.reloaded.is_set() for part in (before, broken, after)] == [True, False, True]
    assert "Stale file handle" in caplog.text


async def test_files_are_looked_at_after_a_lack_of_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


class Counted(Part):
    """Counts its reloads, and reads with an error for as long as one is set."""

    def __init__(self, file: Path) -> None:
        super().__init__(file)
        self.counted: list[bool] = []
        self.content = ""
        self.error: OSError | None = None
        self._count = self.counted.append

    @override
    def _read(self) -> str:
        if self.error is not None:
            raise self.error
        return super()._read()

    @override
    def _take_over(self, content: str) -> None:
        self.content = content


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of a part, which does not know what it holds."""
    path = tmp_path / "keys"
    path.write_text("old")
    return path


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EACCES, errno.EIO])
async def test_an_unread_change_is_read_at_a_later_look(
    file: Any, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    part = Counted(file)
    file.write_text("new")
    part.error = OSError(number, "cannot be opened")
    for _ in range(3):
        await reload_changed([part])
    assert (part.counted, part.content) == ([False] * 3, "")
    assert ["cannot be opened" in vars(record)["reason"] for record in caplog.records] == [True]
    part.error = None
    await reload_changed([part])
    assert (part.counted[3:], part.content) == ([True], "new")
    await reload_changed([part])
    assert len(part.counted) == 4


async def test_a_folder_that_was_replaced_by_another_is_noticed(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "keys").write_text(name)
        os.utime(tmp_path / name / "keys", (1, 1))
    part = Counted(tmp_path / "current" / "keys")
    for name in ("one", "two", "one"):
        (tmp_path / "link").symlink_to(tmp_path / name)
        (tmp_path / "link").replace(tmp_path / "current")
        await reload_changed([part])
        assert part.content == name
    shutil.rmtree(tmp_path / "one")
    await reload_changed([part])
    assert (part.content, part.counted[-1]) == ("one", False)


async def test_a_change_during_a_read_is_read_once_more(file: Any) -> None:
    class Changing(Counted):
        @override
        def _read(self) -> str:
            content = super()._read()
            if content == "first":
                file.write_text("second, longer")
            return content

    part = Changing(file)
    file.write_text("first")
    await reload_changed([part])
    assert part.content == "first"
    await reload_changed([part])
    assert part.content == "second, longer"


async def test_a_named_pipe_in_the_place_of_a_file_ends_no_looks_at_it(file: Any) -> None:
    part = Counted(file)
    file.unlink()
    os.mkfifo(file)
    looking = asyncio.create_task(reload_changed([part]))
    ended, _ = await asyncio.wait([looking], timeout=30)
    # A thread that waited for a writer would wait for ever.
    os.close(os.open(file, os.O_RDWR | os.O_NONBLOCK))
    await looking
    assert (len(ended), part.counted) == (1, [False])
    file.unlink()
    file.write_text("new")
    await reload_changed([part])
    assert (part.content, part.counted) == ("new", [False, True])


_MOUNTS = """\
21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
35 21 0:46 / /home/with\\040space rw,nosuid shared:12 master:3 - nfs4 files:/home rw,vers=4.2
36 21 0:47 / /plain rw - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("device", "name"), [((8, 1), "ext4"), ((0, 46), "nfs4"), ((0, 47), "tmpfs"), ((0, 4), ""), ((8, 11), "")]
)
def test_a_file_system_is_named_by_the_device(device: tuple[int, int], name: str) -> None:
    assert file_system(os.makedev(*device), _MOUNTS) == name


def test_a_folder_that_is_not_there_is_where_it_would_be_made() -> None:
    assert not is_remote(Path("/proc/none/of/these"))


def test_nothing_is_left_where_files_cannot_be_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(OSError, match="no locks"):
        temporary_beside(tmp_path / "file")
    assert list(tmp_path.iterdir()) == []
