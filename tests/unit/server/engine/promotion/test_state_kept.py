"""What a second engine over the same folder knows of the decisions of the first."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from xuanzang.server.engine.engine import Engine
from xuanzang.server.engine.errors import ModelStateError
from xuanzang.server.engine.models.traffic import Share, Traffic
from xuanzang.server.engine.promotion.settings import PromotionSettings
from xuanzang.server.engine.promotion.state_file import FILE
from xuanzang.server.engine.settings import EngineSettings

Restart = Callable[..., Any]


def live_version(engine: Engine) -> int:
    return engine.router.resolve(model="small", source_language="", target_language="").model.version


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


async def test_live_previous_canary_and_shadow_outlive_the_engine(restart: Restart, add_version: Any) -> None:
    for version in (2, 3, 4):
        add_version(version)
    first = await restart()
    first.promoter.force("small", 3, reason="a test")
    first.promoter.share("small", 2, canary=0.25, shadow=None)
    first.promoter.share("small", 4, canary=None, shadow=0.5)
    second = await restart(first)
    assert second.live.catalog.traffic["small"] == Traffic(
        live=3, previous=1, canary=Share(version=2, share=0.25), shadow=Share(version=4, share=0.5)
    )
    assert second.promoter.roll_back("small") == 1
    third = await restart(second)
    assert live_version(third) == 1
    with pytest.raises(ModelStateError, match="cannot go back"):
        third.promoter.roll_back("small")


async def test_a_pin_by_command_is_kept_and_the_settings_go_before_it(restart: Restart, add_version: Any) -> None:
    add_version(2)
    add_version(3)
    first = await restart(promotion="direct")
    await first.live.pin("small", 2)
    second = await restart(first, promotion="direct")
    assert second.live.catalog.pins == {"small": 2}
    assert live_version(second) == 2
    third = await restart(second, promotion="direct", pin="small/1")
    assert third.live.catalog.pins == {"small": 1}
    # What only the settings said is not kept.
    fourth = await restart(third, promotion="direct")
    assert fourth.live.catalog.pins == {}


async def test_a_pin_whose_version_is_gone_ends_with_a_warning(
    restart: Restart, add_version: Any, caplog: pytest.LogCaptureFixture
) -> None:
    folder = add_version(2)
    first = await restart(promotion="direct")
    await first.live.pin("small", 2)
    await first.join(5)
    shutil.rmtree(folder)
    second = await restart(promotion="direct")
    assert (live_version(second), second.live.catalog.pins) == (1, {})
    assert "a pinned version is gone, so the pin has ended" in caplog.messages


async def test_versions_that_came_while_the_server_was_down_join_as_if_loaded_now(
    restart: Restart, add_version: Any
) -> None:
    add_version(2)
    add_version(5)
    first = await restart(promotion="direct")
    first.promoter.force("small", 2, reason="5 is bad")
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


async def test_another_bundle_under_the_number_of_the_live_version_is_not_live(
    restart: Restart, add_version: Any, edit_manifest: Any
) -> None:
    folder = add_version(3)
    add_version(2)
    first = await restart()
    first.promoter.force("small", 2, reason="a test")
    first.promoter.force("small", 3, reason="a test")
    await first.join(5)
    edit_manifest(folder, lambda manifest: manifest["generation_defaults"].update(beam_size=1))
    second = await restart()
    # The one before it has been live.
    assert live_version(second) == 2
    assert second.live.catalog.traffic["small"].previous is None
    assert second.live.catalog.find("small", 3) is not None


async def test_what_the_gate_refused_is_not_judged_again_after_a_restart(
    restart: Restart, add_version: Any, script: Any
) -> None:
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
        b'{"models": {"small": {"versions": {}, "canary": {"version": 1, "share": NaN}}}}',
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
    [record] = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert record.message == "the state of promotion is damaged and not used"
    assert getattr(record, "reason").startswith("it")  # noqa: B009 - unknown to the type of a record
    await engine.promoter.settle()
    assert json.loads((repository / FILE).read_text())["models"]["small"]["live"] == 1


async def test_a_server_that_decides_nothing_writes_nothing(restart: Restart, repository: Path) -> None:
    engine = await restart(promotion="direct")
    await engine.promoter.settle()
    assert not (repository / FILE).exists()


async def test_a_chosen_file_keeps_the_state_and_the_folder_of_the_models_has_none(
    restart: Restart, add_version: Any, repository: Path, tmp_path: Path
) -> None:
    add_version(2)
    chosen = tmp_path / "state.json"
    first = await restart(promotion_state=chosen)
    first.promoter.force("small", 2, reason="a test")
    second = await restart(first, promotion_state=chosen)
    assert live_version(second) == 2
    assert not (repository / FILE).exists()
    assert not list(await asyncio.to_thread(tmp_path.glob, "*.tmp"))


async def test_a_folder_that_cannot_be_written_is_named_in_the_log_and_read(
    restart: Restart, add_version: Any, repository: Path, caplog: pytest.LogCaptureFixture, monkeypatch: Any
) -> None:
    add_version(2)
    first = await restart()
    first.promoter.force("small", 2, reason="a test")
    await first.join(5)
    kept = (repository / FILE).read_bytes()
    # Root may write everywhere, so a mode would not do.
    monkeypatch.setattr("os.access", lambda *_: False)
    second = await restart()
    assert "pins and promotions are lost at the end of the process" in caplog.messages
    assert live_version(second) == 2
    second.promoter.roll_back("small")
    await second.promoter.settle()
    assert (repository / FILE).read_bytes() == kept


async def test_what_could_not_be_written_is_written_with_the_next_change(
    restart: Restart, add_version: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    add_version(2)
    folder = tmp_path / "state"
    folder.mkdir()
    engine = await restart(promotion_state=folder / "promotion.json")
    await engine.promoter.settle()
    shutil.rmtree(folder)
    engine.promoter.force("small", 2, reason="a test")
    await engine.promoter.settle()
    assert "the state of promotion cannot be written" in caplog.messages
    folder.mkdir()
    engine.promoter.share("small", 1, canary=0.5, shadow=None)
    await engine.promoter.settle()
    kept = json.loads((folder / "promotion.json").read_text())["models"]["small"]
    assert (kept["live"], kept["canary"]) == (2, {"version": 1, "share": 0.5})
