from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from xuanzang.documents import TranslationMemory


def test_what_is_added_is_found_by_the_next_who_opens_the_file(tmp_path: Path) -> None:
    keys = [bytes([number, other]) for number in range(256) for other in range(5)]
    with TranslationMemory(tmp_path / "memory") as memory:
        assert memory.is_empty()
        memory.add({key: f"text {key!r}" for key in keys})
        memory.add({keys[0]: "newer"})
    with TranslationMemory(tmp_path / "memory") as memory:
        found = memory.find([*keys, b"unknown"])
    assert found == {key: f"text {key!r}" for key in keys} | {keys[0]: "newer"}


def test_only_the_owner_can_read_it_whatever_the_mask_is(tmp_path: Path) -> None:
    with TranslationMemory(tmp_path / "memory") as memory:
        memory.add({b"key": "text"})
    assert [stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()] == [0o600]


def test_over_its_limit_it_drops_what_was_not_used_for_longest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(10_000))
    monkeypatch.setattr("xuanzang.documents.memory._now", lambda: next(ticks))
    with TranslationMemory(tmp_path / "memory", max_bytes=128 * 1024) as memory:
        memory.add({b"first": "x" * 1000, b"second": "y"})
        for number in range(300):
            memory.find([b"first"])
            memory.add({bytes([number // 250, number % 250]): "z" * 1000})
        assert set(memory.find([b"first", b"second"])) == {b"first"}
        assert len(memory.find([bytes([0, number]) for number in range(250)])) < 200
    assert (tmp_path / "memory").stat().st_size < 160 * 1024


def test_another_file_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database at all, but long enough to have a header" * 20)
    with pytest.raises(ValueError, match=r"memory .*text: file is not a database"):
        TranslationMemory(tmp_path / "text")
    database = sqlite3.connect(tmp_path / "other")
    database.execute("CREATE TABLE x (y)")
    database.close()
    with pytest.raises(ValueError, match="other is no translation memory"):
        TranslationMemory(tmp_path / "other")
    with pytest.raises(ValueError, match="max_bytes must be at least 65536"):
        TranslationMemory(tmp_path / "small", max_bytes=1)
    with pytest.raises(FileNotFoundError):
        TranslationMemory(tmp_path / "nowhere" / "memory")


def test_threads_and_processes_share_it(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom xuanzang.documents import TranslationMemory\n"
        "with TranslationMemory(sys.argv[1]) as memory:\n"
        "    for i in range(50): memory.add({f'{sys.argv[2]} {i}'.encode(): 'x'})\n"
    )
    others = [subprocess.Popen([sys.executable, "-c", script, tmp_path / "memory", str(n)]) for n in range(2)]
    with TranslationMemory(tmp_path / "memory") as memory:

        def add(name: int) -> None:
            for number in range(50):
                memory.add({f"thread {name} {number}".encode(): "x"})

        threads = [threading.Thread(target=add, args=(name,)) for name in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [other.wait(timeout=60) for other in others] == [0, 0]
        names = [f"{who}{n} {i}".encode() for who in ("thread ", "") for n in (0, 1) for i in range(50)]
        assert len(memory.find(names)) == 200
