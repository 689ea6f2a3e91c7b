"""Versions that go live through the gate, and back, on a real server with real and with damaged weights."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from administration import administered
from bundle_versions import add_good_version
from version_callers import VersionCallers

from xuanzang.admin.v1 import admin_pb2 as pb
from xuanzang.client import AsyncTranslationClient
from xuanzang.client._commands.admin import run_admin_command

SENTENCES = ("我有三只猫。", "老师有十只鸟。", "他们有两只马。", "你有五只鱼。", "我们有一只虎。", "你有七只牛。")
LIMITS: dict[str, Any] = {"min_target_length": 8, "max_target_length": 24}


@pytest.fixture(scope="session")
def damaged_bundle(
    tiny_checkpoint: Path, toy_files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Return a bundle of version 2 with damaged weights and a true certificate, so that nothing else refuses it."""
    import torch

    from xuanzang.export.exporter import export
    from xuanzang.export.settings import ExportSettings
    from xuanzang.model.checkpoint import load_checkpoint, save_weights

    root = tmp_path_factory.mktemp("damaged")
    checkpoint = Path(shutil.copytree(tiny_checkpoint, root / "checkpoint"))
    model = load_checkpoint(checkpoint).model
    torch.manual_seed(2)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.startswith("decoder") and parameter.dim() > 1:
                parameter.add_(torch.randn_like(parameter) * parameter.std() * 2)
    save_weights(checkpoint / "model.safetensors", dict(model.named_parameters()))
    settings = ExportSettings(
        checkpoint=checkpoint,
        repository=root / "models",
        model="tiny",
        version=2,
        precision="float32",
        valid=toy_files[1],
        parity_sentences=5,
        evaluation_sentences=8,
    )
    export(settings)
    return root / "models" / "tiny" / "2"


class Running:
    """A server, its client, its administrator and the command."""

    def __init__(self, running: Any, client: AsyncTranslationClient, admin: Any, capsys: Any) -> None:
        self.client = client
        self.admin = admin
        self._port = running.server.admin.port
        self._capsys = capsys

    async def models(self, *arguments: str) -> tuple[int, str]:
        """Run `xuanzang admin`; return its status and what it writes."""
        environment = {"XUANZANG_ADMIN_ADDRESS": str(self._port)}
        self._capsys.readouterr()
        status = await asyncio.to_thread(run_admin_command, arguments, environment=environment)
        captured = self._capsys.readouterr()
        return status, " ".join((captured.out + captured.err).split())

    async def versions(self, count: int) -> Counter[str]:
        """Count the versions that answer requests that name none."""
        answers = [await self.client.translate_one(SENTENCES[0], **LIMITS) for _ in range(count)]
        return Counter(answer.model_version for answer in answers)


@pytest.fixture
def start(start_server: Any, repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Starts a server whose golden set is what version 1 translates: `async with start(promotion="gate") as run`."""
    golden = tmp_path / "golden"
    golden.mkdir()

    @asynccontextmanager
    async def started(**settings: Any) -> AsyncIterator[Running]:
        chosen = {"models": repository, "golden_sets": golden, "admin_address": "0", **settings}
        async with start_server(**chosen) as running, administered(running) as (client, admin):
            answers = await client.translate(SENTENCES, model="tiny/1")
            lines = (f"{source}\t{answer.text}\n" for source, answer in zip(SENTENCES, answers, strict=True))
            (golden / "tiny.tsv").write_text("".join(lines), encoding="utf-8")
            yield Running(running, client, admin, capsys)

    return started


async def test_the_command_judges_promotes_and_goes_back(start: Any, repository: Path, damaged_bundle: Path) -> None:
    shutil.copytree(damaged_bundle, repository / "tiny" / "2")
    add_good_version(repository, 3)
    async with start(promotion="manual") as running:
        status, written = await running.models("evaluate", "tiny/2")
        assert status == 1
        assert "not to go live: golden_set_chrf is " in written
        status, written = await running.models("evaluate", "tiny/3")
        assert status == 0
        assert "agreement_exact_match 1 bound 0 ok" in written
        assert await running.versions(3) == {"1": 3}
        status, written = await running.models("promote", "tiny/3")
        assert (status, "tiny/3 serving default" in written) == (0, True)
        status, written = await running.models("list")
        assert "tiny/1 serving previous float32" in written
        assert "tiny/2 serving - float32" in written
        status, written = await running.models("rollback", "tiny")
        assert (status, written.startswith("tiny/1 serving default")) == (0, True)
        assert await running.versions(3) == {"1": 3}
        assert (await running.models("rollback", "tiny"))[0] == 1
        status, written = await running.models("promote", "tiny/2", "--force", "to see what happens")
        assert (status, written.startswith("tiny/2 serving default")) == (0, True)


async def test_requests_out_of_range_are_refused_with_the_field(start: Any) -> None:
    wrong = {
        "version: must be a whole number": ("PromoteModel", pb.PromoteModelRequest(name="tiny", version="x")),
        "force_reason: must have at most 500 characters, has 501": (
            "PromoteModel",
            pb.PromoteModelRequest(name="tiny", version="2", force_reason="x" * 501),
        ),
        "name: must be 1 to 63 of a-z": ("RollbackModel", pb.RollbackModelRequest()),
    }
    async with start() as running:
        for message, (method, request) in wrong.items():
            with pytest.raises(grpc.aio.AioRpcError, match=message) as refusal:
                await getattr(running.admin, method)(request)
            assert refusal.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_rollback_under_load_fails_no_call_and_mixes_no_versions(
    start: Any, repository: Path, damaged_bundle: Path
) -> None:
    shutil.copytree(damaged_bundle, repository / "tiny" / "2")
    async with start(workers=2) as running:
        callers = VersionCallers(running.client, SENTENCES, LIMITS)
        await callers.learn("1", "2")
        status, _ = await running.models("promote", "tiny/1", "--force", "begin with the sound one")
        assert status == 0
        assert (await running.models("promote", "tiny/2", "--force", "a mistake"))[0] == 0
        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(callers.call())
            status, _ = await running.models("rollback", "tiny")
            callers.end()
        assert status == 0
        assert callers.versions[-4:] == ["1"] * 4
