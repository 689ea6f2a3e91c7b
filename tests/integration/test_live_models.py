"""Models that come and go while a real server translates, by the administration service and by a watched folder."""

from __future__ import annotations

import asyncio
import json
import shutil
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from administration import Administration, administered, version_when
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tests.integration.conftest import fixture
from version_callers import VersionCallers

from xuanzang.admin.v1 import admin_pb2 as pb
from xuanzang.admin.v1 import admin_pb2_grpc
from xuanzang.client import AsyncTranslationClient, ModelNotFoundError

SENTENCES = ("我有三只猫。", "老师有十只鸟。", "他们有两只马。", "你有五只鱼。")
FIXED: dict[str, Any] = {"min_target_length": 8, "max_target_length": 24}
BEAM_SIZES = {1: 4, 2: 1, 3: 2}
"""Default beam sizes of the versions, by which their translations differ."""
SECONDS_BETWEEN_LOOKS = 0.02


def add_version(repository: Path, version: int) -> Path:
    """Put a version into the folder as a careful copy does: whole, by a rename."""
    written = write_version(repository, version, repository.parent / f"writing-{version}")
    return written.rename(repository / "tiny" / str(version))


def write_version(repository: Path, version: int, folder: Path) -> Path:
    """Write version 1 under another number, with another default beam size."""
    shutil.copytree(repository / "tiny" / "1", folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["version"] = version
    manifest["generation_defaults"]["beam_size"] = BEAM_SIZES[version]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def damage(folder: Path) -> None:
    """Change one bit of the weights, whose size stays."""
    weights = folder / "weights.bin"
    content = bytearray(weights.read_bytes())
    content[len(content) // 2] ^= 1
    weights.write_bytes(content)


class Running:
    """A server with an administration service, its client and its administrator."""

    def __init__(self, running: Any, client: AsyncTranslationClient, admin: Administration) -> None:
        self.server = running.server
        self.scrape = running.scrape
        self.address = running.address
        self.client = client
        self.admin = admin

    async def load(self, version: int | str, name: str = "tiny") -> pb.Model:
        answer: pb.LoadModelResponse = await self.admin.LoadModel(
            pb.LoadModelRequest(name=name, version=str(version or ""))
        )
        return answer.model

    async def unload(self, version: int, name: str = "tiny") -> None:
        await self.admin.UnloadModel(pb.UnloadModelRequest(name=name, version=str(version)))

    async def states(self) -> dict[str, tuple[int, bool]]:
        """Return state and whether it is the default, by version."""
        answer: pb.ListModelsResponse = await self.admin.ListModels(pb.ListModelsRequest())
        return {model.version: (model.state, model.is_default) for model in answer.models}

    async def until(self, version: str, holds: Callable[[pb.Model], object]) -> pb.Model:
        """Ask for a version until a condition holds."""
        return await version_when(self.admin, version, holds)

    async def default(self) -> str:
        """Return the version that answers requests that name none, and check the client's list."""
        answered = await self.client.translate_one(SENTENCES[0], **FIXED)
        [listed] = [model.version for model in await self.client.list_models() if model.is_default]
        assert answered.model_version == listed
        return listed

    async def health(self) -> int:
        """Return the health of the model."""
        async with grpc.aio.insecure_channel(self.address) as channel:
            stub: Any = health_pb2_grpc.HealthStub(channel)
            answer = await stub.Check(health_pb2.HealthCheckRequest(service="tiny"))
            return int(answer.status)


Start = Callable[..., Any]


@pytest.fixture
def start(start_server: Any, repository: Path) -> Start:
    """Starts a server over `repository`, `async with start(watch_models=1) as running`."""

    @asynccontextmanager
    async def started(**settings: Any) -> AsyncIterator[Running]:
        async with (
            start_server(models=repository, admin_address="0", **settings) as running,
            administered(running) as (client, admin),
        ):
            yield Running(running, client, admin)

    return started


@fixture
async def running(start: Start) -> AsyncIterator[Running]:
    async with start() as running:
        yield running


async def refused(call: Awaitable[object], code: grpc.StatusCode) -> str:
    """Return the message of an administrative call that is refused."""
    with pytest.raises(grpc.aio.AioRpcError) as refusal:
        await call
    assert refusal.value.code() is code
    return str(refusal.value.details())


async def test_a_swap_under_load_fails_no_call_and_mixes_no_versions(start: Start, repository: Path) -> None:
    add_version(repository, 2)
    async with start(workers=2) as running:
        callers = VersionCallers(running.client, SENTENCES, FIXED)
        await callers.learn("1", "2")
        await running.unload(2)
        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(callers.call())
            group.create_task(callers.stream())
            for _ in range(3):
                await running.load(2)
                await running.unload(1)
                await running.load(1)
                await running.unload(2)
            await running.load(2)
            callers.end()
        assert set(callers.versions) == {"1", "2"}
        assert await running.default() == "2"


async def test_a_damaged_version_is_refused_and_the_old_one_stays(running: Running, repository: Path) -> None:
    folder = add_version(repository, 2)
    damage(folder)
    message = await refused(running.load(2), grpc.StatusCode.FAILED_PRECONDITION)
    assert "tiny/2 is refused: weights.bin has SHA-256" in message
    assert await running.default() == "1"
    assert await running.states() == {"1": (pb.MODEL_STATE_SERVING, True), "2": (pb.MODEL_STATE_REFUSED, False)}
    answer = await running.admin.GetModel(pb.GetModelRequest(name="tiny", version="2"))
    [reason] = answer.model.refusal_reasons
    assert reason in message
    scrape = await running.scrape()
    assert scrape.value("nmt_bundles_refused") == 1
    assert scrape.value("nmt_model_changes_total", change="refused") == 1
    # Repaired, it is refused no more.
    damage(folder)
    model = await running.load(2)
    assert (model.state, list(model.refusal_reasons)) == (pb.MODEL_STATE_SERVING, [])
    assert (await running.scrape()).value("nmt_bundles_refused") == 0
    shutil.rmtree(repository / "tiny")
    message = await refused(running.admin.ReloadModels(pb.ReloadModelsRequest()), grpc.StatusCode.FAILED_PRECONDITION)
    assert message == "the folder of the models holds no bundle"
    assert await running.default() == "2"


async def test_an_unloaded_model_is_unknown_until_it_is_loaded_again(running: Running) -> None:
    assert await running.health() == health_pb2.HealthCheckResponse.SERVING
    before = await running.client.translate_one(SENTENCES[0], **FIXED)
    await running.unload(1)
    for model in ("", "tiny", "tiny/1"):
        with pytest.raises(ModelNotFoundError):
            await running.client.translate_one(SENTENCES[0], model=model, **FIXED)
    assert await running.client.list_models() == []
    assert await running.states() == {"1": (pb.MODEL_STATE_UNLOADED, False)}
    assert await running.health() == health_pb2.HealthCheckResponse.NOT_SERVING
    await running.load(1)
    assert (await running.client.translate_one(SENTENCES[0], **FIXED)).text == before.text
    assert await running.health() == health_pb2.HealthCheckResponse.SERVING


async def test_unloading_lets_go_of_the_graphs_and_of_the_series(start: Start, repository: Path) -> None:
    add_version(repository, 2)
    async with start(workers=2) as running:
        for version in (1, 2):
            await running.client.translate(SENTENCES * 4, model=f"tiny/{version}", **FIXED)
        engine = running.server.engine
        loaded = {model.version: model for model in engine.live.catalog.models}
        kept = weakref.ref(loaded[2]._sessions)
        gone = weakref.ref(loaded.pop(1)._sessions)
        del loaded
        await running.unload(1)
        assert gone() is None
        assert kept() is not None
        scrape = await running.scrape()
        assert scrape.value("nmt_model_ready", model="tiny") == 1
        with pytest.raises(AssertionError, match="no series"):
            scrape.value("nmt_cache_bytes", version="1")


async def test_a_watched_folder_is_followed(start: Start, repository: Path) -> None:
    async with start(watch_models=SECONDS_BETWEEN_LOOKS) as running:
        add_version(repository, 2)
        await running.until("2", lambda model: model.state == pb.MODEL_STATE_SERVING)
        assert await running.default() == "2"
        damage(add_version(repository, 3))
        model = await running.until("3", lambda model: model.refusal_reasons)
        assert (model.state, await running.default()) == (pb.MODEL_STATE_REFUSED, "2")
        damage(repository / "tiny" / "3")
        await running.until("3", lambda model: model.is_default)
        shutil.rmtree(repository / "tiny" / "3")
        await running.until("2", lambda model: model.is_default)
        assert await running.default() == "2"


async def test_a_folder_that_is_being_written_is_not_served_until_it_is_whole(start: Start, repository: Path) -> None:
    whole = write_version(repository, 2, repository.parent / "whole")
    async with start(watch_models=SECONDS_BETWEEN_LOOKS) as running:
        folder = repository / "tiny" / "2"
        folder.mkdir()
        # The manifest first, the weights in two parts: the order that is hardest to see through.
        for path in sorted(
            whole.iterdir(), key=lambda path: (path.name == "weights.bin", path.name != "manifest.json")
        ):
            content = path.read_bytes()
            with (folder / path.name).open("wb") as file:
                file.write(content[: len(content) // 2])
                file.flush()
                # Until the server has looked at it at least once.
                await running.until("2", lambda model: model.state != pb.MODEL_STATE_SERVING)
                assert await running.default() == "1"
                file.write(content[len(content) // 2 :])
        await running.until("2", lambda model: model.state == pb.MODEL_STATE_SERVING)
        assert await running.default() == "2"


async def test_what_is_not_there_is_told_from_wrong_names_and_callers_administer_nothing(running: Running) -> None:
    wrong = {
        ("tiny", "9"): grpc.StatusCode.NOT_FOUND,
        ("../tiny", "1"): grpc.StatusCode.INVALID_ARGUMENT,
        ("tiny", "0"): grpc.StatusCode.INVALID_ARGUMENT,
        ("", "x"): grpc.StatusCode.INVALID_ARGUMENT,
    }
    for (name, version), code in wrong.items():
        for method, request in (
            (running.admin.GetModel, pb.GetModelRequest),
            (running.admin.LoadModel, pb.LoadModelRequest),
            (running.admin.UnloadModel, pb.UnloadModelRequest),
            (running.admin.PinModel, pb.PinModelRequest),
        ):
            await refused(method(request(name=name, version=version)), code)
    async with grpc.aio.insecure_channel(running.address) as channel:
        stub: Administration = admin_pb2_grpc.ModelServiceStub(channel)
        await refused(stub.ListModels(pb.ListModelsRequest()), grpc.StatusCode.UNIMPLEMENTED)
