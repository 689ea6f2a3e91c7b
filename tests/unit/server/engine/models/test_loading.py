"""Which models an engine serves, and their trial in another process."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from search_options import search_options

from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.manifest import manifest_digest
from xuanzang.server.engine.calls.record import Call
from xuanzang.server.engine.decoding.hypotheses import Sentence
from xuanzang.server.engine.engine import Engine
from xuanzang.server.engine.models import trial_loader
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.models.loading import load_model, replay
from xuanzang.server.engine.models.trial_loader import TrialLoader, TriedBundles
from xuanzang.server.engine.settings import EngineSettings, ModelLimits
from xuanzang.server.metrics import Metrics
from xuanzang.text.tokenizer import Processors

Edit = Callable[[Path, Callable[[dict[str, Any]], object]], None]
Script = Any
MakeEngine = Callable[[EngineSettings], Engine]


async def test_one_worker_decodes_several_models(
    make_engine: MakeEngine, add_version: Any, script: Script, options: Any
) -> None:
    add_version(2)
    engine = make_engine(SETTINGS)
    await engine.start()
    script.allow(0)
    calls = [
        asyncio.ensure_future(engine.translate(Call(texts=("hello world",), model=model, options=options)))
        for model in engine.models * 2
    ]
    await script.until(lambda script: script.blocked)
    script.allow(math.inf)
    assert [answer[0][0].text for answer in await asyncio.gather(*calls)] == ["hello world"] * 4


async def test_a_bundle_that_differs_from_its_certificate_is_refused_alone(
    repository: Path, make_engine: MakeEngine, script: Script, add_version: Any, caplog: Any, metrics: Metrics
) -> None:
    add_version(2)
    script.wrong_versions = {2}
    engine = make_engine(SETTINGS)
    await engine.start()
    assert metrics.registry.get_sample_value("nmt_bundles_refused") == 1
    assert [(model.version, model.is_default) for model in engine.models] == [(1, True)]
    [record] = [record for record in caplog.records if record.message == "bundle refused"]
    assert record.__dict__["bundle"] == str(repository / "small" / "2")
    assert "is not that of the certificate" in record.__dict__["reasons"][0]


async def test_a_bundle_that_tokenises_otherwise_than_its_certificate_is_refused(
    repository: Path, make_engine: MakeEngine, relist: Callable[[Path], None]
) -> None:
    directory = repository / "small" / "1"
    certificate = json.loads((directory / "certificate.json").read_text())
    certificate["samples"][1]["source_ids"].insert(0, 5)
    (directory / "certificate.json").write_text(json.dumps(certificate))
    relist(directory)
    with pytest.raises(BundleError, match="source ids of 'hello world' are not those of the certificate"):
        await make_engine(SETTINGS).start()


async def test_files_that_change_in_a_load_refuse_it(repository: Path, make_engine: MakeEngine, script: Script) -> None:
    engine = make_engine(SETTINGS)
    script.allow(0)
    starting = asyncio.ensure_future(engine.start())
    await script.until(lambda script: script.blocked)
    (repository / "small" / "1" / "weights.bin").touch()
    script.allow(math.inf)
    with pytest.raises(BundleError, match=r"weights\.bin was changed while the bundle was being loaded"):
        await starting


@pytest.mark.parametrize("known", [True, False])
async def test_of_a_bundle_that_was_replayed_before_the_shortest_sample_is_replayed(
    repository: Path, make_engine: MakeEngine, script: Script, tmp_path: Path, known: bool
) -> None:
    directory, tried = repository / "small" / "1", TriedBundles(tmp_path / "tried", configuration="")
    tried.add([tried.entry_of(manifest_digest(directory))] if known else [])
    trial_loader = TrialLoader(SETTINGS, known=tried)
    # Not in this thread, which would take denormal floats for zero from then on.
    model = await asyncio.to_thread(load_model, directory, make_engine(SETTINGS)._load_model, trial_loader.has_replayed)
    assert isinstance(model, LoadedModel)
    lengths = sorted(len(sample.source_ids) for sample in model.bundle.samples)
    decoded = sorted(length for batch in script.batches for length in batch)
    assert decoded == (lengths[:1] if known else lengths)


async def test_a_replay_that_does_not_end_in_time_is_given_up(repository: Path, make_engine: MakeEngine) -> None:
    model = make_engine(SETTINGS)._load_model(repository / "small" / "1")
    replay(model)
    with pytest.raises(BundleError, match=r"replay of certificate\.json does not end in time"):
        replay(model, max_seconds=-1)


class LimitedSettings(EngineSettings):
    memory_bytes: int

    def limits_of(self, model: str) -> ModelLimits:
        return ModelLimits(memory_bytes=self.memory_bytes) if model == "tiny" else ModelLimits()


@pytest.fixture
def model(tiny_bundle_repository: Path, metrics: Metrics) -> LoadedModel:
    return LoadedModel(tiny_bundle_repository / "tiny" / "1", metrics)


def test_keys_and_values_get_what_weights_leave_the_more_the_wider_a_beam(model: LoadedModel, metrics: Metrics) -> None:
    def needed(beam_size: int) -> int:
        options = search_options(beam_size=beam_size, max_target_length=64)
        return model.cache_bytes_of(Sentence(source_ids=[5] * 10, options=options))

    with pytest.raises(BundleError, match=r"the weights have \d+ bytes, and --model-memory-mb allows 1000 in all"):
        model.open(LimitedSettings(memory_bytes=1000))
    assert needed(4) == 0
    weights = (model.bundle.directory / "weights.bin").stat().st_size
    model.open(LimitedSettings(memory_bytes=weights + 5000, provider="cpu"))
    limit = metrics.registry.get_sample_value("nmt_model_cache_limit_bytes", {"model": "tiny", "version": "1"})
    assert model.max_cache_bytes == limit == 5000
    assert 0 < needed(1) < needed(4) < needed(16)


def test_early_graphs_need_their_digest(tiny_bundle_repository: Path, tmp_path: Path, metrics: Metrics) -> None:
    directory = Path(shutil.copytree(tiny_bundle_repository, tmp_path / "models")) / "tiny" / "1"
    settings = EngineSettings(provider="cpu")
    assert LoadedModel(directory, metrics, settings).sessions
    with (directory / "weights.bin").open("r+b") as file:
        [first] = file.read(1)
        file.seek(0)
        file.write(bytes([first ^ 1]))
    with pytest.raises(BundleError, match=r"weights\.bin has SHA-256"):
        LoadedModel(directory, metrics, settings)


def test_models_share_equal_vocabularies(tiny_bundle_repository: Path, tmp_path: Path, metrics: Metrics) -> None:
    directory, processors = tiny_bundle_repository / "tiny" / "1", Processors()
    other = Path(shutil.copytree(tiny_bundle_repository, tmp_path / "models")) / "tiny" / "1"
    text = "abc abc"
    alone = LoadedModel(directory, metrics, processors=processors)
    vocabularies, ids = processors.count, alone.codec.encode(text)
    second = LoadedModel(other, metrics, processors=processors)
    assert processors.count == vocabularies > 0
    alone.close()
    assert second.codec.encode(text) == ids
    second.close()
    assert processors.count == 0


Behave = Callable[[str], None]
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


async def test_known_bundles_are_not_tried_again(directory: Path, tmp_path: Path, behave: Behave) -> None:
    tried(tmp_path).add([tried(tmp_path).entry_of(manifest_digest(directory))])
    behave("os.abort()")
    assert not await TrialLoader(SETTINGS, known=tried(tmp_path)).refusals([directory])
    assert list(await TrialLoader(SETTINGS, known=tried(tmp_path, "cuda")).refusals([directory])) == [directory]


async def test_a_model_that_rests_may_be_loaded_after_one_trial(directory: Path, behave: Behave) -> None:
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


async def test_a_trial_of_another_bundle_does_not_count(directory: Path, behave: Behave) -> None:
    model = LoadedModel(directory, Metrics(CollectorRegistry()), rests=True)
    behave("print('[]', flush=True)\n")
    (directory / "manifest.json").write_bytes((directory / "manifest.json").read_bytes() + b" ")
    with pytest.raises(BundleError, match="another bundle has taken its place"):
        await TrialLoader(SETTINGS).require(model)


async def test_what_another_process_has_replayed_is_known(directory: Path, tmp_path: Path) -> None:
    digest = hashlib.sha256((directory / "manifest.json").read_bytes()).hexdigest()
    loader = TrialLoader(SETTINGS, known=tried(tmp_path))
    assert not loader.has_replayed(digest)
    assert not await loader.refusals([directory])
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
    # It keeps the newest thousand.
    known.add([f"{number}" for number in range(1500)])
    assert known.entries() == [f"{number}" for number in range(500, 1500)]
    # One that cannot be written is no fault.
    (tmp_path / "file").write_text("not a folder")
    unkept = TriedBundles(tmp_path / "file" / "tried", configuration="")
    unkept.add(["sound"])
    assert not unkept.entries()


async def test_a_refused_bundle_is_not_remembered(directory: Path, tmp_path: Path) -> None:
    manifest: dict[str, Any] = json.loads((directory / "manifest.json").read_text())
    manifest["dimensions"]["num_heads"] = 1
    (directory / "manifest.json").write_text(json.dumps(manifest))
    refusals = await TrialLoader(SETTINGS, known=tried(tmp_path)).refusals([directory])
    assert "dimensions.num_heads is 1" in refusals[directory].reasons[0]
    assert not tried(tmp_path).entries()


async def test_each_bundle_that_ends_the_process_is_refused_alone(behave: Behave) -> None:
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


async def test_the_process_gives_way_unless_nothing_is_translated_yet(behave: Behave) -> None:
    behave("print(json.dumps([str(os.getpriority(os.PRIO_PROCESS, 0))]), flush=True)\n")
    priorities: list[str] = []
    for gives_way in (True, False):
        refusals = await TrialLoader(SETTINGS).refusals([Path("a")], gives_way=gives_way)
        priorities += refusals[Path("a")].reasons
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert priorities == [str(min(own + 10, 19)), str(own)]


async def test_bundles_that_take_too_long_end_their_process(tmp_path: Path, behave: Behave) -> None:
    behave(f"open({str(tmp_path / 'id')!r}, 'w').write(str(os.getpid()))\ntime.sleep(1000)\n")
    refusals = await TrialLoader(SETTINGS, max_seconds_per_bundle=3).refusals([Path("a")])
    assert refusals[Path("a")].reasons == ("loading it takes more than 3 seconds",)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "id").read_text()), 0)


async def test_a_server_that_stops_meanwhile_ends_the_process(tmp_path: Path, behave: Behave) -> None:
    os.mkfifo(tmp_path / "id")
    behave(f"open({str(tmp_path / 'id')!r}, 'w').write(str(os.getpid()))\ntime.sleep(1000)\n")
    trial = asyncio.ensure_future(TrialLoader(SETTINGS).refusals([Path("a")]))
    process = int(await asyncio.to_thread((tmp_path / "id").read_text))
    trial.cancel()
    await asyncio.gather(trial, return_exceptions=True)
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


async def test_what_nobody_tried_is_refused(monkeypatch: pytest.MonkeyPatch, directory: Path, tmp_path: Path) -> None:
    monkeypatch.setattr(trial_loader, "_MODULE", "no_such_module")
    refusals = await TrialLoader(SETTINGS, known=tried(tmp_path)).refusals([directory, Path("b")])
    reason = "it was not tried: the process that loads it first did not start"
    assert [list(error.reasons) for error in refusals.values()] == [[reason], [reason]]
    assert not tried(tmp_path).entries()
