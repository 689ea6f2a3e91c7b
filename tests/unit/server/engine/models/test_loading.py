"""Which models an engine serves, and what it gives to those who write several languages."""

from __future__ import annotations

import asyncio
import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.manifest import manifest_digest
from xuanzang.server.engine.calls.record import Call
from xuanzang.server.engine.engine import Engine
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.models.loading import load_model, replay
from xuanzang.server.engine.models.trial_loader import TrialLoader, TriedBundles
from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.metrics import Metrics

Edit = Callable[[Path, Callable[[dict[str, Any]], object]], None]
Script = Any
MakeEngine = Callable[[EngineSettings], Engine]
SETTINGS = EngineSettings(workers=1)


async def add_version(repository: Path, version: int, edit_manifest: Edit) -> Path:
    directory = repository / "small" / str(version)
    shutil.copytree(repository / "small" / "1", directory)
    edit_manifest(directory, lambda manifest: manifest.update(version=version))
    return directory


async def test_one_worker_decodes_the_sentences_of_several_models_in_turn(
    repository: Path, make_engine: MakeEngine, edit_manifest: Edit, script: Script, options: Any
) -> None:
    await add_version(repository, 2, edit_manifest)
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
    repository: Path,
    make_engine: MakeEngine,
    script: Script,
    edit_manifest: Edit,
    caplog: pytest.LogCaptureFixture,
    metrics: Metrics,
) -> None:
    await add_version(repository, 2, edit_manifest)
    script.wrong_versions = {2}
    engine = make_engine(SETTINGS)
    await engine.start()
    assert metrics.registry.get_sample_value("nmt_bundles_refused") == 1
    assert [(model.version, model.is_default) for model in engine.models] == [(1, True)]
    [record] = [record for record in caplog.records if record.message == "bundle refused"]
    assert record.__dict__["bundle"] == str(repository / "small" / "2")
    assert "is not that of the certificate" in record.__dict__["reasons"][0]


async def test_a_bundle_that_tokenises_otherwise_than_its_certificate_is_refused(
    repository: Path, make_engine: MakeEngine, edit_manifest: Edit, list_files: Callable[..., None]
) -> None:
    directory = repository / "small" / "1"
    certificate = json.loads((directory / "certificate.json").read_text())
    certificate["samples"][1]["source_ids"].insert(0, 5)
    (directory / "certificate.json").write_text(json.dumps(certificate))
    edit_manifest(directory, lambda manifest: list_files(manifest, directory))
    with pytest.raises(BundleError, match="source ids of 'hello world' are not those of the certificate"):
        await make_engine(SETTINGS).start()


async def test_a_file_that_changes_while_its_bundle_is_loaded_is_a_reason_to_refuse(
    repository: Path, make_engine: MakeEngine, script: Script
) -> None:
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
