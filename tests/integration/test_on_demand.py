"""Models that a server loads by their first requests."""

from __future__ import annotations

import asyncio
import json
import math
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from administration import administered, version_when
from bundle_versions import copy_version
from gateways import running_gateway
from pydantic import ValidationError

from xuanzang.admin.v1 import admin_pb2 as pb
from xuanzang.client import AsyncTranslationClient, ModelNotFoundError, ServerUnavailableError
from xuanzang.server import AsyncTranslator
from xuanzang.server.engine.settings import EngineSettings

NAMES = ("first", "second", "third")


@pytest.fixture
def room_for_two(tiny_bundle_repository: Path) -> str:
    """Return a value of --model-memory that holds two models, and not three."""
    files = sum(path.stat().st_size for path in (tiny_bundle_repository / "tiny" / "1").iterdir())
    return f"{math.ceil(2.5 * (files / 1e6 + 8))}MB"


@pytest.fixture
def repository(tiny_bundle_repository: Path, tmp_path: Path) -> Path:
    """Return a folder with three models, which share the files of one."""
    root = tmp_path / "models"
    for name in NAMES:
        folder = Path(shutil.copytree(tiny_bundle_repository / "tiny" / "1", root / name / "1", copy_function=os.link))
        manifest = folder / "manifest.json"
        content = json.loads(manifest.read_text()) | {"model": name}
        manifest.unlink()
        manifest.write_text(json.dumps(content))
    return root


async def residencies(client: AsyncTranslationClient) -> dict[str, str]:
    return {model.name: model.residency for model in await client.list_models()}


async def test_a_server_loads_models_by_their_first_requests(
    start_server: Any, repository: Path, room_for_two: str
) -> None:
    async with (
        start_server(models=repository, model_memory=room_for_two) as running,
        AsyncTranslationClient(running.address) as client,
    ):
        assert await residencies(client) == dict.fromkeys(NAMES, "on_demand")
        together = [client.translate_one("hello", model="first") for _ in range(5)]
        assert len({translation.text for translation in await asyncio.gather(*together)}) == 1
        assert await residencies(client) == {"first": "loaded", "second": "on_demand", "third": "on_demand"}
        for name in ("second", "third", "first"):
            await client.translate_one("hello", model=name)
        assert sorted((await residencies(client)).values()) == ["loaded", "loaded", "on_demand"]
        assert [model.is_default for model in await client.list_models()] == [True] * 3


async def test_the_fault_of_a_load_is_listed_and_leaves_other_models_alone(
    start_server: Any, repository: Path, room_for_two: str
) -> None:
    async with (
        start_server(models=repository, model_memory=room_for_two) as running,
        AsyncTranslationClient(running.address) as client,
        running_gateway(running.address) as gateway,
    ):
        (repository / "second" / "1" / "weights.bin").unlink()
        with pytest.raises(ServerUnavailableError, match=r"second/1 cannot be loaded: .*weights\.bin") as refused:
            await client.translate_one("hello", model="second", timeout=5)
        assert str(repository) not in str(refused.value)
        await client.translate_one("hello", model="third")
        assert (await gateway.get("/health")).json["models"] == {"loaded": 1, "failing": 1, "on_demand": 1}
        listed = {model["name"]: model for model in (await gateway.get("/v1/models")).json["models"]}
        assert {name: model["residency"] for name, model in listed.items()} == await residencies(client)
        assert "weights.bin" in listed["second"]["residency_fault"]
        assert (listed["first"]["residency_fault"], listed["third"]["residency_fault"]) == ("", "")
        found = await running.scrape()
        assert [found.value("nmt_model_failing", model=name) for name in NAMES] == [0, 1, 0]
        assert [found.value("nmt_model_ready", model=name) for name in NAMES] == [1, 0, 1]


async def test_resting_versions_are_pinned_promoted_and_rolled_back(
    start_server: Any, repository: Path, room_for_two: str
) -> None:
    settings = {"models": repository, "model_memory": room_for_two, "admin_address": "0", "promotion": "manual"}
    async with start_server(**settings, watch_models=0.02) as running, administered(running) as (client, admin):

        async def answering() -> str:
            return (await client.translate_one("hello", model="first")).model_version

        assert await answering() == "1"
        copy_version(repository / "first" / "1", repository / "first", 2)
        added = await version_when(admin, "2", lambda model: model.state == pb.MODEL_STATE_ON_DEMAND)
        assert added.name == "first"
        assert await answering() == "1"
        await admin.PromoteModel(pb.PromoteModelRequest(name="first", version="2", force_reason="a test"))
        assert (await residencies(client))["first"] == "on_demand"
        assert await answering() == "2"
        await admin.RollbackModel(pb.RollbackModelRequest(name="first"))
        assert await answering() == "1"
        # Version 1 leaves the memory, and is live all the same.
        for name in ("second", "third"):
            await client.translate_one("hello", model=name)
        assert await answering() == "1"
        await admin.PinModel(pb.PinModelRequest(name="first", version="2"))
        assert await answering() == "2"


async def test_a_watched_folder_takes_resting_versions_in_and_out(
    start_server: Any, repository: Path, room_for_two: str
) -> None:
    settings = {"models": repository, "model_memory": room_for_two, "admin_address": "0"}
    async with start_server(**settings, watch_models=0.02) as running, administered(running) as (client, admin):
        copy_version(repository / "first" / "1", repository / "first", 2)
        await version_when(admin, "2", lambda model: model.is_default)
        assert (await client.translate_one("hello", model="first")).model_version == "2"
        # One in memory and one that rests.
        (repository / "first" / "2").rename(repository.parent / "gone-2")
        (repository / "third").rename(repository.parent / "gone-third")
        while set(found := await residencies(client)) != {"first", "second"}:
            pass
        assert set(found.values()) == {"on_demand"}
        assert (await client.translate_one("hello", model="first")).model_version == "1"
        with pytest.raises(ModelNotFoundError):
            await client.translate_one("hello", model="third")
        assert (await running.scrape()).value("nmt_model_memory_bytes") > 0


async def test_a_translator_in_the_process_loads_models_on_demand(repository: Path, room_for_two: str) -> None:
    async with AsyncTranslator(repository, model_memory=room_for_two, workers=1) as translator:
        for name in NAMES:
            assert (await translator.translate_one("hello", model=name)).text
        places = sorted(model.residency for model in translator.list_models())
        assert places == ["loaded", "loaded", "on_demand"]


def test_limits_of_one_model_and_of_all_are_told_apart() -> None:
    with pytest.raises(ValidationError, match="the limit of one model is --model-memory-mb"):
        EngineSettings(model_memory="zh-en=500")
    with pytest.raises(ValidationError, match="the memory of all models together is --model-memory"):
        EngineSettings(model_memory_mb="2GB")
