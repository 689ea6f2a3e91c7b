"""What a second engine over the same folder knows of the decisions of the first."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from xuanzang.server.engine.engine import Engine
from xuanzang.server.engine.errors import ModelStateError
from xuanzang.server.engine.models.catalog import Standing
from xuanzang.server.engine.promotion import kept_state
from xuanzang.server.engine.promotion.kept_state import FILE
from xuanzang.server.engine.settings import EngineSettings, PromotionSettings
from xuanzang.server.watched_files import reload_changed
from xuanzang.server.whole_files import remove_abandoned

Restart = Callable[..., Any]


def live_version(engine: Engine) -> int:
    return engine.router.resolve(model="small", source_language="", target_language="").model.version


def kept_of(repository: Path) -> dict[str, Any]:
    """Return what is kept of the model."""
    kept: dict[str, Any] = json.loads((repository / FILE).read_text())["models"]["small"]
    return kept


@pytest.fixture
def restart(make_engine: Any, golden_sets: Path) -> Restart:
    """Ends an engine, if there is one, and starts the next: `await restart(engine, promotion="direct")`."""

    async def restarted(before: Engine | None = None, *, pin: str = "", **settings: Any) -> Engine:
        if before:
            await before.join(5)
        promotion = PromotionSettings(**{"promotion": "manual", "golden_sets": golden_sets, **settings})
        engine: Engine = make_engine(EngineSettings(workers=1, pin=pin), promotion)
        await engine.start()
        return engine

    return restarted


async def test_a_pin_by_command_is_kept_and_the_settings_go_before_it(restart: Restart, add_version: Any) -> None:
    add_version(2)
    add_version(3)
    first = await restart(promotion="direct")
    await first.promoter.pin("small", 2)
    second = await restart(first, promotion="direct")
    assert second.live.catalog.pins == {"small": 2}
    assert live_version(second) == 2
    third = await restart(second, promotion="direct", pin="small/1")
    assert third.live.catalog.pins == {"small": 1}
    # What only the settings said is not kept.
    fourth = await restart(third, promotion="direct")
    assert fourth.live.catalog.pins == {}


async def test_a_pin_without_version_ends_with_a_warning(
    restart: Restart, add_version: Any, caplog: pytest.LogCaptureFixture
) -> None:
    folder = add_version(2)
    first = await restart(promotion="direct")
    await first.promoter.pin("small", 2)
    await first.join(5)
    shutil.rmtree(folder)
    second = await restart(promotion="direct")
    assert (live_version(second), second.live.catalog.pins) == (1, {})
    assert "a pinned version is gone, so the pin has ended" in caplog.messages


async def test_versions_that_came_while_it_was_down_join_as_if_loaded_now(restart: Restart, add_version: Any) -> None:
    add_version(2)
    add_version(5)
    first = await restart(promotion="direct")
    await first.promoter.force("small", 2, reason="5 is bad")
    second = await restart(first, promotion="direct")
    assert live_version(second) == 2
    await second.join(5)
    add_version(4)
    third = await restart(promotion="direct")
    # Not the highest, nor a reason to go back to the one that is.
    assert live_version(third) == 2
    await third.join(5)
    add_version(6)
    fourth = await restart(promotion="direct")
    assert live_version(fourth) == 6
    await fourth.join(5)
    add_version(7)
    # One that holds lets none of them go live.
    assert live_version(await restart(promotion="manual")) == 6


async def test_another_bundle_of_its_number_is_not_live(restart: Restart, add_version: Any, edit_manifest: Any) -> None:
    folder = add_version(3)
    add_version(2)
    first = await restart()
    await first.promoter.force("small", 2, reason="a test")
    await first.promoter.force("small", 3, reason="a test")
    await first.join(5)
    edit_manifest(folder, lambda manifest: manifest["generation_defaults"].update(beam_size=1))
    second = await restart()
    # The one before it has been live.
    assert live_version(second) == 2
    assert second.live.catalog.standings["small"].previous is None
    assert second.live.catalog.find("small", 3) is not None


async def test_what_the_gate_refused_stays_so_after_a_restart(restart: Restart, add_version: Any, script: Any) -> None:
    script.worse_versions = (2,)
    add_version(2)
    first = await restart()
    with pytest.raises(ModelStateError):
        await first.promoter.promote("small", 2)
    refusals = first.promoter.refusals("small", 2)
    script.worse_versions = ()
    second = await restart(first, promotion="gate")
    assert refusals
    assert second.promoter.refusals("small", 2) == refusals
    assert live_version(second) == 1
    assert (await second.promoter.promote("small", 2)).reasons == ()


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"\xff\xfe",
        b"[]",
        b'{"format": 2}',
        b'{"models": {"small": {"versions": {"1": "x"}}}}',
        b'{"models": {"small": {"versions": {}, "live": 0}}}',
        b'{"models": {"small": {"versions": {}, "pinned": NaN}}}',
        b'{"models": {"small": {"versions": {}, "extra": 1}}}',
        b" " * (1 << 20) + b"{}",
    ],
)
async def test_a_damaged_file_is_named_and_set_aside(
    restart: Restart, add_version: Any, repository: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    add_version(2)
    (repository / FILE).write_bytes(content)
    engine = await restart()
    assert live_version(engine) == 1
    assert (repository / f"{FILE}.damaged").read_bytes() == content
    [record] = [vars(each) for each in caplog.records if each.levelno == logging.ERROR]
    assert record["message"] == "the state of promotion is damaged and not used"
    assert record["reason"].startswith("it")
    await engine.promoter.settle()
    assert kept_of(repository)["live"] == 1


async def test_a_server_that_decides_nothing_writes_nothing(restart: Restart, repository: Path) -> None:
    engine = await restart(promotion="direct")
    await engine.promoter.settle()
    assert not (repository / FILE).exists()


async def refused(engine: Engine, reason: str, *changes: Any) -> None:
    """Expect of each change that it is refused, and that nothing has changed."""
    before = engine.live.catalog
    for change in changes:
        with pytest.raises(ModelStateError, match=f"nothing has changed: .* {reason}"):
            await change
        assert engine.live.catalog is before


async def test_of_a_folder_that_cannot_be_written_the_state_is_read_and_commands_are_refused(
    restart: Restart, add_version: Any, repository: Path, caplog: pytest.LogCaptureFixture, monkeypatch: Any
) -> None:
    add_version(2)
    first = await restart()
    await first.promoter.force("small", 2, reason="a test")
    await first.join(5)
    kept = (repository / FILE).read_bytes()
    with monkeypatch.context() as read_only:
        # Root may write everywhere, so a mode would not do.
        read_only.setattr("os.access", lambda *_: False)
        second = await restart()
        assert "promotions are lost at the end of the process, and pins refused" in caplog.messages
        assert live_version(second) == 2
        # That no version is pinned is what the next start has, too.
        promoter = second.promoter
        await promoter.pin("small", None)
        moves = promoter.promote("small", 1), promoter.force("small", 1, reason="x"), promoter.roll_back("small")
        pins = (promoter.pin("small", version) for version in (1, 2))
        await refused(second, "is read-only; .* --promotion-state", *pins, *moves)
        await promoter.settle()
        assert (repository / FILE).read_bytes() == kept
    await promoter.pin("small", 1)
    assert kept_of(repository)["pinned"] == 1


async def test_the_gate_lets_versions_through_on_a_folder_that_cannot_be_written(
    restart: Restart, add_version: Any, repository: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    engine = await restart(promotion="gate")
    add_version(2)
    await engine.live.load("small", 2)
    while live_version(engine) != 2:  # noqa: ASYNC110 - a catalog has no event
        await asyncio.sleep(0.01)
    await engine.promoter.settle()
    assert not (repository / FILE).exists()


async def test_a_chosen_file_keeps_pins_although_the_folder_of_the_models_is_read_only(
    restart: Restart, add_version: Any, repository: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    add_version(2)
    first = await restart(promotion="direct", promotion_state=tmp_path / "state.json")
    await first.promoter.pin("small", 1)
    second = await restart(first, promotion="direct", promotion_state=tmp_path / "state.json")
    assert live_version(second) == 1
    assert not (repository / FILE).exists()


async def test_a_change_that_cannot_be_kept_is_refused_and_changes_nothing(
    restart: Restart, add_version: Any, repository: Path, monkeypatch: Any
) -> None:
    add_version(2)
    engine = await restart()
    await engine.promoter.force("small", 2, reason="a test")
    kept = (repository / FILE).read_bytes()

    def fsync(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    promoter = engine.promoter
    with monkeypatch.context() as full_disk:
        full_disk.setattr("os.fsync", fsync)
        changes = promoter.pin("small", 1), promoter.force("small", 1, reason="x"), promoter.roll_back("small")
        await refused(engine, "No space left on device", *changes)
        assert (repository / FILE).read_bytes() == kept
        assert not list(await asyncio.to_thread(repository.glob, "..*"))
    await promoter.pin("small", 1)
    assert kept_of(repository)["pinned"] == 1


async def test_what_servers_of_one_folder_decide_holds_for_all_of_them(restart: Restart, add_version: Any) -> None:
    for version in (2, 3):
        add_version(version)
    one, other = await restart(promotion="direct"), await restart(promotion="direct")
    await asyncio.gather(
        *(server.promoter.pin("small", 1 + number % 3) for number in range(30) for server in (one, other))
    )
    for server in (one, other):
        await server.promoter.reload()
    assert one.live.catalog.pins == other.live.catalog.pins
    await one.promoter.pin("small", None)
    await one.promoter.force("small", 2, reason="a test")
    # The second knows the first one's decision before it makes its own.
    await other.promoter.force("small", 1, reason="a test")
    await one.promoter.reload()
    for server in (one, other, await restart(one, promotion="direct")):
        assert server.live.catalog.pins == {}
        assert server.live.catalog.standings["small"] == Standing(live=1, previous=2)
    await other.join(5)


async def test_a_decision_that_cannot_be_taken_up_for_a_time_is_taken_up_later(
    restart: Restart, add_version: Any, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_version(2)
    one, other = await restart(promotion="direct"), await restart(promotion="direct")
    await one.promoter.settle()
    await other.promoter.settle()
    await one.promoter.pin("small", 1)
    monkeypatch.setattr(kept_state, "_LOCK_SECONDS", 0.0)
    folder = os.open(repository, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        await reload_changed([other.promoter])
    finally:
        os.close(folder)
    assert other.live.catalog.pins == {}
    monkeypatch.undo()
    await reload_changed([other.promoter])
    assert other.live.catalog.pins == {"small": 1}
    await one.join(5)


async def test_a_decision_about_a_version_waits_for_it(restart: Restart, add_version: Any, repository: Path) -> None:
    behind = await restart(promotion="direct")
    add_version(2)
    ahead = await restart(promotion="direct")
    add_version(3)
    await ahead.live.load("small", 3)
    await ahead.promoter.pin("small", 2)
    await behind.promoter.reload()
    assert (live_version(behind), behind.live.catalog.pins) == (1, {})
    # What it decides about other things takes nothing from the other server's decision.
    await behind.promoter.settle()
    assert kept_of(repository)["pinned"] == 2
    await behind.live.load("small", 3)
    await behind.live.load("small", 2)
    assert (live_version(behind), behind.live.catalog.pins) == (2, {"small": 2})
    await behind.promoter.settle()
    assert kept_of(repository)["pinned"] == 2
    await behind.join(5)
    await ahead.join(5)


async def test_an_impatient_caller_leaves_no_half_change(restart: Restart, add_version: Any, repository: Path) -> None:
    add_version(2)
    engine = await restart()
    impatient = asyncio.create_task(engine.promoter.force("small", 2, reason="a test"))
    await asyncio.sleep(0)
    impatient.cancel()
    with pytest.raises(asyncio.CancelledError):
        await impatient
    await engine.promoter.settle()
    assert live_version(engine) == kept_of(repository)["live"]


def test_what_killed_writers_have_left_is_removed_and_what_is_being_written_is_not(tmp_path: Path) -> None:
    write = "from pathlib import Path; import os, sys; from xuanzang.server import whole_files\n"
    write += "whole_files.os.fsync = lambda _: os.kill(os.getpid(), 9)\n"
    write += "whole_files.write_whole(Path(sys.argv[1]), b'x')"
    for name in ("a.tsv", "b.json"):
        subprocess.run([sys.executable, "-c", write, str(tmp_path / name)], check=False)
    (tmp_path / "..mine.tsv").touch()
    assert len(list(tmp_path.iterdir())) == 3
    remove_abandoned(tmp_path, "*.tsv")
    left = sorted(path.name for path in tmp_path.iterdir())
    assert (left[0], left[1][:9], len(left)) == ("..b.json." + left[0][9:], "..mine.ts", 2)
    handle, name = tempfile.mkstemp(prefix="..c.tsv.", suffix=".tmp", dir=tmp_path)
    fcntl.flock(handle, fcntl.LOCK_EX)
    remove_abandoned(tmp_path, "*")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["..mine.tsv", Path(name).name])
    os.close(handle)
