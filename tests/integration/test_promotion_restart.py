"""Decisions about versions that outlive the process of the server, killed or drained."""

from __future__ import annotations

import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from bundle_versions import add_good_version

from xuanzang.admin.v1 import admin_pb2 as pb
from xuanzang.admin.v1 import admin_pb2_grpc
from xuanzang.client import AsyncTranslationClient


class Restarted:
    """A server process, and its administrator."""

    def __init__(self, process: Any, admin: Any) -> None:
        self.process = process
        self.admin = admin

    async def answered_by(self) -> str:
        """Return the version that answers a request that names none."""
        async with AsyncTranslationClient(self.process.address) as client:
            return (await client.translate_one("我有三只猫。", max_target_length=8)).model_version

    async def models(self) -> dict[str, pb.Model]:
        answer: pb.ListModelsResponse = await self.admin.ListModels(pb.ListModelsRequest())
        return {model.version: model for model in answer.models}


@pytest.fixture
def start(start_process: Any, tiny_bundle_repository: Path, tmp_path: Path) -> Any:
    """Starts a server process on versions 1, 2 and 3, always the same folder: `async with start("--…") as server`."""
    repository = Path(shutil.copytree(tiny_bundle_repository, tmp_path / "models"))
    for version in (2, 3):
        add_good_version(repository, version)

    @asynccontextmanager
    async def started(*flags: str) -> AsyncIterator[Restarted]:
        chosen = (f"--models={repository}", "--no-detection", "--admin-address=127.0.0.1:0", *flags)
        async with start_process(*chosen) as process:
            port = (await process.until("administration"))["port"]
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                yield Restarted(process, admin_pb2_grpc.ModelServiceStub(channel))

    return started


async def test_what_a_command_was_answered_about_outlives_a_killed_server(start: Any) -> None:
    async with start("--promotion=manual") as server:
        assert await server.answered_by() == "1"
        await server.admin.PromoteModel(pb.PromoteModelRequest(name="tiny", version="2", force_reason="a test"))
        await server.process.stop(signal.SIGKILL)
    async with start("--promotion=manual") as server:
        assert await server.answered_by() == "2"
        assert (await server.models())["1"].is_previous
        await server.admin.RollbackModel(pb.RollbackModelRequest(name="tiny"))
        await server.process.stop(signal.SIGKILL)
    async with start("--promotion=manual") as server:
        assert await server.answered_by() == "1"
