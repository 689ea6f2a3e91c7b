"""Which bundles are tried in another process, and what happens if that has no answer."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.manifest import manifest_digest
from xuanzang.server.engine.models import trial_loader
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.models.trial_loader import TrialLoader, TriedBundles
from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.metrics import Metrics

SETTINGS = EngineSettings(workers=1, provider="cpu")
# In the place of the module that loads bundles: it answers as its source says.
ANSWERS = "import json, sys, os, time\nrequest = json.loads(input())\nprint('0', flush=True)\n"


@pytest.fixture
def directory(tiny_bundle_repository: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_bundle_repository, tmp_path / "models")) / "tiny" / "1"


@pytest.fixture
def behave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Lets the process run other code."""

    def replace(code: str) -> None:
        (tmp_path / "stand_in.py").write_text(ANSWERS + code)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        monkeypatch.setattr(trial_loader, "_MODULE", "stand_in")

    return replace


def tried(tmp_path: Path, configuration: str = "") -> TriedBundles:
    return TriedBundles(tmp_path / "cache" / "tried", configuration=configuration)


async def test_a_sound_bundle_is_not_refused_and_remembered(directory: Path, tmp_path: Path) -> None:
    assert not await TrialLoader(SETTINGS, known=tried(tmp_path)).refusals([directory])
    assert tried(tmp_path).entries() == [tried(tmp_path).entry_of(manifest_digest(directory))]


async def test_a_known_bundle_is_not_tried_again(
    directory: Path, tmp_path: Path, behave: Callable[[str], None]
) -> None:
    tried(tmp_path).add([tried(tmp_path).entry_of(manifest_digest(directory))])
    behave("os.abort()")
    assert not await TrialLoader(SETTINGS, known=tried(tmp_path)).refusals([directory])
    assert list(await TrialLoader(SETTINGS, known=tried(tmp_path, "cuda")).refusals([directory])) == [directory]


async def test_a_model_that_rests_may_be_loaded_after_one_trial(directory: Path, behave: Callable[[str], None]) -> None:
    model = LoadedModel(directory, Metrics(CollectorRegistry()), rests=True)
    loader = TrialLoader(SETTINGS)
    behave("print(json.dumps(['it is refused']), flush=True)\n")
    for _ in range(2):
        with pytest.raises(BundleError, match="it is refused"):
            await loader.require(model)
    behave("print('[]', flush=True)\n")
    await loader.require(model)
    behave("os.abort()")
    await loader.require(model)


async def test_a_trial_of_another_bundle_does_not_count_for_a_model(
    directory: Path, behave: Callable[[str], None]
) -> None:
    model = LoadedModel(directory, Metrics(CollectorRegistry()), rests=True)
    behave("print('[]', flush=True)\n")
    (directory / "manifest.json").write_bytes((directory / "manifest.json").read_bytes() + b" ")
    with pytest.raises(BundleError, match="another bundle has taken its place"):
        await TrialLoader(SETTINGS).require(model)


async def test_what_another_process_has_replayed_is_known(directory: Path, tmp_path: Path) -> None:
    digest = hashlib.sha256((directory / "manifest.json").read_bytes()).hexdigest()
    loader = TrialLoader(SETTINGS, known=tried(tmp_path))
    assert not loader.has_replayed(digest)
    await loader.refusals([directory])
    assert loader.has_replayed(digest)
    assert not TrialLoader(SETTINGS, known=tried(tmp_path, "another processor")).has_replayed(digest)
    assert not TrialLoader(SETTINGS).has_replayed(digest)


def test_a_list_that_others_may_write_is_not_believed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    known = tried(tmp_path)
    known.add(["sound"])
    assert known.entries() == ["sound"]
    (tmp_path / "cache" / "tried").chmod(0o660)
    assert not known.entries()
    assert "tried bundles not read: others may write the list" in caplog.messages
    known.add(["newer"])
    assert known.entries() == ["newer"]


async def test_a_refused_bundle_is_not_remembered(directory: Path, tmp_path: Path) -> None:
    manifest: dict[str, Any] = json.loads((directory / "manifest.json").read_text())
    manifest["dimensions"]["num_heads"] = 1
    (directory / "manifest.json").write_text(json.dumps(manifest))
    refusals = await TrialLoader(SETTINGS, known=tried(tmp_path)).refusals([directory])
    assert "dimensions.num_heads is 1" in refusals[directory].reasons[0]
    assert not tried(tmp_path).entries()


async def test_each_bundle_that_ends_the_process_is_refused_alone(behave: Callable[[str], None]) -> None:
    behave(
        "for name in request['directories']:\n"
        "    if name == 'bad': os.abort()\n"
        "    if name == 'worse': sys.exit(3)\n"
        "    print('[]', flush=True)\n"
    )
    names = ["a", "bad", "b", "worse", "bad", "c"]
    paths = [Path(name) for name in names]
    refusals = await TrialLoader(SETTINGS).refusals(list(dict.fromkeys(paths)))
    assert {path.name: error.reasons[0].rpartition(": ")[2] for path, error in refusals.items()} == {
        "bad": "SIGABRT",
        "worse": "exit status 3",
    }


async def test_the_process_gives_way_unless_nothing_is_translated_yet(behave: Callable[[str], None]) -> None:
    behave("print(json.dumps([str(os.getpriority(os.PRIO_PROCESS, 0))]), flush=True)\n")
    priorities: list[str] = []
    for gives_way in (True, False):
        refusals = await TrialLoader(SETTINGS).refusals([Path("a")], gives_way=gives_way)
        priorities += refusals[Path("a")].reasons
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert priorities == [str(min(own + 10, 19)), str(own)]


async def test_a_bundle_that_takes_too_long_ends_with_its_process(
    tmp_path: Path, behave: Callable[[str], None]
) -> None:
    behave(f"open({str(tmp_path / 'id')!r}, 'w').write(str(os.getpid()))\ntime.sleep(1000)\n")
    refusals = await TrialLoader(SETTINGS, max_seconds_per_bundle=0.5).refusals([Path("a")])
    assert refusals[Path("a")].reasons == ("loading it takes more than 0.5 seconds",)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "id").read_text()), 0)


async def test_a_server_that_stops_meanwhile_ends_the_process(tmp_path: Path, behave: Callable[[str], None]) -> None:
    os.mkfifo(tmp_path / "id")
    behave(f"open({str(tmp_path / 'id')!r}, 'w').write(str(os.getpid()))\ntime.sleep(1000)\n")
    trial = asyncio.ensure_future(TrialLoader(SETTINGS).refusals([Path("a")]))
    process = int(await asyncio.to_thread((tmp_path / "id").read_text))
    trial.cancel()
    await asyncio.gather(trial, return_exceptions=True)
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


async def test_what_no_process_has_tried_is_refused_and_not_remembered(
    monkeypatch: pytest.MonkeyPatch, directory: Path, tmp_path: Path
) -> None:
    monkeypatch.setattr(trial_loader, "_MODULE", "no_such_module")
    refusals = await TrialLoader(SETTINGS, known=tried(tmp_path)).refusals([directory, Path("b")])
    reason = "it was not tried: the process that loads it first did not start"
    assert [list(error.reasons) for error in refusals.values()] == [[reason], [reason]]
    assert not tried(tmp_path).entries()


def test_a_list_that_cannot_be_written_is_no_fault(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("not a folder")
    tried(tmp_path).add([tried(tmp_path).entry_of(manifest_digest(directory))])
    assert not tried(tmp_path).entries()


def test_the_list_keeps_the_newest_thousand(tmp_path: Path) -> None:
    tried(tmp_path).add([f"{number}" for number in range(1500)])
    assert tried(tmp_path).entries() == [f"{number}" for number in range(500, 1500)]
