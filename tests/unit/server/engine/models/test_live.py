from __future__ import annotations

import asyncio
import math
import os
import shutil
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest

from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.engine.calls.record import Call
from xuanzang.server.engine.engine import Engine
from xuanzang.server.engine.errors import DrainingError, ModelNotFoundError
from xuanzang.server.engine.models.folder import FolderWatch, VersionName, version_name
from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.engine.types import DecodingOptions, Hypothesis, ModelState
from xuanzang.server.metrics import Metrics

Script = Any
MakeEngine = Callable[[EngineSettings], Engine]
SETTINGS = EngineSettings(workers=1)


def versions(engine: Engine) -> list[tuple[int, bool]]:
    return [(model.version, model.is_default) for model in engine.models]


async def states(engine: Engine) -> dict[int, ModelState]:
    return {status.version: status.state for status in await engine.live.statuses()}


async def until_only_newest(engine: Engine) -> None:
    while len(engine.models) > 1:  # noqa: ASYNC110 - the catalog has no event
        await asyncio.sleep(0)


async def test_the_state_of_a_version_in_loading_is_told(engine: Engine, script: Script, add_version: Any) -> None:
    add_version(2)
    script.allow(0)
    loading = asyncio.create_task(engine.live.load("small", 2))
    await script.until(lambda script: script.blocked)
    assert await states(engine) == {1: ModelState.SERVING, 2: ModelState.LOADING}
    script.allow(math.inf)
    await loading
    assert await states(engine) == {1: ModelState.SERVING, 2: ModelState.SERVING}


async def retiring_in_use(
    engine: Engine, script: Script, options: DecodingOptions
) -> tuple[asyncio.Task[list[list[Hypothesis]]], asyncio.Task[None]]:
    """Unload version 1 during a call; return the call, whose sentence waits in a worker, and the unloading."""
    await engine.live.load("small", 2)
    script.allow(0)
    call = asyncio.create_task(engine.translate(Call(texts=("hello world",), model=engine.models[0], options=options)))
    await script.until(lambda script: script.blocked)
    unloading = asyncio.create_task(engine.live.unload("small", 1))
    await until_only_newest(engine)
    return call, unloading


async def test_a_version_retires_with_its_last_call(
    engine: Engine, script: Script, add_version: Any, options: DecodingOptions
) -> None:
    add_version(2)
    call, unloading = await retiring_in_use(engine, script, options)
    # An administrator who does not wait for it leaves it half done for nobody.
    unloading.cancel()
    assert (await states(engine))[1] is ModelState.RETIRING
    script.allow(math.inf)
    assert (await call)[0][0].text == "hello world"
    while (await states(engine))[1] is ModelState.RETIRING:  # noqa: ASYNC110 - the catalog has no event
        await asyncio.sleep(0)
    assert (await states(engine))[1] is ModelState.UNLOADED


async def test_progressive_calls_keep_their_model(engine: Engine, add_version: Any, options: DecodingOptions) -> None:
    add_version(2)
    await engine.live.load("small", 2)
    parts = engine.translate_progressively(Call(texts=("hello world",), model=engine.models[0], options=options))
    await anext(parts)
    unloading = asyncio.create_task(engine.live.unload("small", 1))
    await until_only_newest(engine)
    assert not unloading.done()
    *_, hypotheses = [part async for part in parts]
    assert isinstance(hypotheses, list)
    assert hypotheses[0].text == "hello world"
    await unloading


async def test_the_series_of_an_unloaded_version_are_gone(engine: Engine, add_version: Any, metrics: Metrics) -> None:
    def series(version: str) -> set[str]:
        return {
            sample.name
            for family in metrics.registry.collect()
            for sample in family.samples
            if sample.labels.get("version") == version and "model" in sample.labels
        }

    add_version(2)
    await engine.live.load("small", 2)
    assert series("2") == series("1") >= {"nmt_model_info", "nmt_model_ready", "nmt_requests_total"}
    await engine.live.unload("small", 1)
    assert not series("1")
    assert metrics.registry.get_sample_value("nmt_model_changes_total", {"change": "unloaded"}) == 1


async def test_a_changed_bundle_replaces_the_loaded_one(engine: Engine, repository: Path, edit_manifest: Any) -> None:
    [before] = engine.models
    edit_manifest(repository / "small" / "1", lambda manifest: manifest["generation_defaults"].update(beam_size=3))
    status = await engine.live.load("small", 1)
    [after] = engine.models
    assert (status.served, after.default_options.beam_size) == (after, 3)
    assert after.manifest_sha256 != before.manifest_sha256


async def test_a_version_that_is_damaged_in_its_folder_stays_as_it_was(
    engine: Engine, repository: Path, edit_manifest: Any, metrics: Metrics
) -> None:
    served = engine.models
    edit_manifest(repository / "small" / "1", lambda manifest: manifest.update(format=1))
    await engine.live.reload()
    assert engine.models == served
    assert metrics.registry.get_sample_value("nmt_bundles_refused") == 1


async def test_a_bundle_that_has_not_changed_is_not_loaded_again(engine: Engine, script: Script) -> None:
    batches = len(script.batches)
    await engine.live.load("small", 1)
    assert len(script.batches) == batches


async def test_a_pinned_version_whose_folder_is_gone_stays(engine: Engine, repository: Path, add_version: Any) -> None:
    add_version(2)
    await engine.promoter.pin("small", 1)
    shutil.rmtree(repository / "small" / "1")
    await engine.live.reload()
    assert versions(engine) == [(1, True), (2, False)]
    await engine.promoter.pin("small", None)
    await engine.live.reload()
    assert versions(engine) == [(2, True)]


async def test_a_watch_unloads_what_is_gone_and_forgets_such_refusals(
    engine: Engine, script: Script, repository: Path, add_version: Any, metrics: Metrics
) -> None:
    watch = FolderWatch(repository)
    script.wrong_versions = (3,)
    for version in (2, 3):
        add_version(version)
    await engine.live.follow(watch)
    assert versions(engine) == [(1, True)]
    await engine.live.follow(watch)
    assert versions(engine) == [(1, False), (2, True)]
    assert metrics.registry.get_sample_value("nmt_bundles_refused") == 1
    for version in (2, 3):
        shutil.rmtree(repository / "small" / str(version))
    await engine.live.follow(watch)
    await engine.live.follow(watch)
    assert versions(engine) == [(1, True)]
    assert metrics.registry.get_sample_value("nmt_bundles_refused") == 0


async def test_a_refused_version_is_tried_again_only_when_it_has_changed(
    engine: Engine, script: Script, repository: Path, add_version: Any, edit_manifest: Any, metrics: Metrics
) -> None:
    def refusals() -> float | None:
        return metrics.registry.get_sample_value("nmt_model_changes_total", {"change": "refused"})

    watch = FolderWatch(repository)
    script.wrong_versions = (2,)
    folder = add_version(2)
    for _ in range(4):
        await engine.live.follow(watch)
    assert refusals() == 1
    edit_manifest(folder, lambda manifest: manifest["generation_defaults"].update(beam_size=3))
    for _ in range(4):
        await engine.live.follow(watch)
    assert refusals() == 2


class Trials:
    """Finds all bundles sound, and keeps their folders."""

    def __init__(self) -> None:
        self.directories: list[Path] = []

    async def refusals(self, directories: Collection[Path], *, gives_way: bool = True) -> dict[Path, BundleError]:
        self.directories += directories
        return {}

    def has_replayed(self, manifest_sha256: str) -> bool:
        return False


@pytest.mark.parametrize(("model_memory", "versions", "tried"), [("", 1, 1), ("", 2, 2), ("1GB", 1, 0), ("1GB", 2, 2)])
async def test_on_demand_the_start_tries_only_models_with_another_version_to_serve(
    make_engine: MakeEngine, add_version: Any, model_memory: str, versions: int, tried: int
) -> None:
    for version in range(2, versions + 1):
        add_version(version)
    engine = make_engine(SETTINGS.model_copy(update={"model_memory": model_memory} if model_memory else {}))
    engine.live._trial_loader = trials = Trials()  # type: ignore[assignment]
    await engine.start()
    assert len(trials.directories) == tried
    assert len(engine.models) == versions


async def test_a_stopping_engine_changes_nothing(engine: Engine, add_version: Any) -> None:
    add_version(2)
    await engine.live.load("small", 2)
    add_version(3)
    engine.drain()
    for change in (
        engine.live.load("small", 3),
        engine.live.unload("small", 1),
        engine.live.reload(),
        engine.promoter.pin("small", 1),
        engine.promoter.force("small", 1, reason="none"),
        engine.promoter.roll_back("small"),
    ):
        with pytest.raises(DrainingError):
            await change
    assert versions(engine) == [(1, False), (2, True)]


async def test_versions_that_are_not_there_are_not_found(engine: Engine) -> None:
    for change in (
        engine.live.load("small", 2),
        engine.live.load("other", None),
        engine.live.unload("small", 2),
        engine.promoter.pin("small", 2),
        engine.promoter.pin("other", None),
        engine.live.status("small", 2),
    ):
        with pytest.raises(ModelNotFoundError):
            await change


async def test_a_failed_runner_fails_its_sentences(
    engine: Engine, options: DecodingOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    [model] = engine.live.catalog.models

    def fail() -> None:
        raise MemoryError("no room")

    with monkeypatch.context() as patched:
        patched.setattr(model, "new_decoder", fail)
        with pytest.raises(MemoryError, match="no room"):
            await engine.translate(Call(texts=("hello world",), model=engine.models[0], options=options))
    [[found]] = await engine.translate(Call(texts=("hello world",), model=engine.models[0], options=options))
    assert found.text == "hello world"


async def test_a_stop_answers_calls_of_retired_ones(
    engine: Engine, script: Script, add_version: Any, options: DecodingOptions
) -> None:
    add_version(2)
    call, unloading = await retiring_in_use(engine, script, options)
    engine.drain()
    script.allow(math.inf)
    assert (await call)[0][0].text == "hello world"
    with pytest.raises(asyncio.CancelledError):
        await unloading
    assert await engine.join(60)


ONE, TWO = VersionName("small", 1), VersionName("small", 2)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path, ONE, "manifest.json", "1")
    return tmp_path


@pytest.fixture
def watch(root: Path) -> FolderWatch:
    return FolderWatch(root)


def write(root: Path, version: VersionName, name: str, content: str) -> None:
    folder = root / version.name / str(version.version)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(content)


def test_a_new_version_is_found_once_it_has_stayed_the_same(watch: FolderWatch, root: Path) -> None:
    # What was in the folder at first is known.
    assert not watch.look()
    write(root, TWO, "manifest.json", "2")
    assert not watch.look()
    write(root, TWO, "weights.bin", "half")
    assert not watch.look()
    assert watch.look() == {TWO: root / "small" / "2"}
    assert not watch.look()


def test_a_file_that_grows_or_is_replaced_is_a_change(watch: FolderWatch, root: Path) -> None:
    write(root, ONE, "manifest.json", "longer")
    watch.look()
    assert watch.look().keys() == {ONE}
    path = root / "small" / "1" / "manifest.json"
    state = path.stat()
    (path.parent / "other").write_text("longer")
    os.utime(path.parent / "other", ns=(state.st_atime_ns, state.st_mtime_ns))
    (path.parent / "other").rename(path)
    watch.look()
    assert watch.look().keys() == {ONE}


def test_a_link_that_is_turned_to_another_file_is_a_change(watch: FolderWatch, root: Path) -> None:
    for folder in ("..data-1", "..data-2"):
        write(root, ONE, folder, "equal")
    path = root / "small" / "1" / "manifest.json"
    path.unlink()
    path.symlink_to("..data-1")
    watch.look()
    assert watch.look()
    path.unlink()
    path.symlink_to("..data-2")
    watch.look()
    assert watch.look().keys() == {ONE}
    # One that leads nowhere stops no look.
    (path.parent / "gone").symlink_to("nowhere")
    watch.look()
    assert watch.look().keys() == {ONE}


def test_a_version_is_gone_after_two_looks_without_it_and_found_again(watch: FolderWatch, root: Path) -> None:
    write(root, TWO, "manifest.json", "2")
    watch.look()
    watch.look()
    (root / "small" / "1").rename(root / "aside")
    watch.look()
    assert not watch.is_gone(ONE)
    watch.look()
    assert (watch.is_gone(ONE), watch.is_gone(TWO)) == (True, False)
    (root / "aside").rename(root / "small" / "1")
    watch.look()
    assert watch.look().keys() == {ONE}


def test_a_folder_that_cannot_be_listed_is_told(watch: FolderWatch, root: Path) -> None:
    shutil.rmtree(root)
    with pytest.raises(BundleError, match="cannot be listed"):
        watch.look()
    # Of an empty one no version is gone.
    root.mkdir()
    for _ in range(3):
        watch.look()
        assert not watch.is_gone(ONE)


def test_the_folder_of_a_model_that_cannot_be_listed_has_version_zero() -> None:
    assert version_name(Path("models/small/12")) == VersionName("small", 12)
    assert version_name(Path("models/small")) == VersionName("small", 0)
