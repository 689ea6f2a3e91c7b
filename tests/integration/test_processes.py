"""Several server processes on one address: `xuanzang serve --processes`."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import grpc
import pytest
from api_keys import add_key
from tests.integration.conftest import LOOPBACK, Scrape, ServerProcess, StartProcess

from xuanzang.admin.v1 import admin_pb2 as pb
from xuanzang.admin.v1 import admin_pb2_grpc
from xuanzang.client import AsyncTranslationClient
from xuanzang.translation.v1 import translation_pb2, translation_pb2_grpc

SENTENCES = ("我有三只猫。", "老师有十只鸟。", "他们有两只马。", "你有五只鱼。")


def free_port(count: int = 1) -> int:
    """Return the first of some ports in a row that are free now."""
    while True:
        with socket.socket() as first:
            first.bind((LOOPBACK, 0))
            port = int(first.getsockname()[1])
            if port + count > 65_000:
                continue
            try:
                for number in range(1, count):
                    with socket.socket() as other:
                        other.bind((LOOPBACK, port + number))
            except OSError:
                continue
            return port


async def serving(process: ServerProcess) -> list[int]:
    """Wait until all processes serve, and return their ids."""
    assert process.process.stderr is not None
    while not any("processes" in line for line in process.logged("serving")):
        await process.until_next()
    return children(process.process.pid)


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def scrape(process: ServerProcess) -> Scrape:
    port = process.logged("listening")[0]["metrics_port"]
    return Scrape(
        await asyncio.to_thread(lambda: urllib.request.urlopen(f"http://{LOOPBACK}:{port}/metrics").read().decode())
    )


async def test_processes_share_an_address_and_are_measured_together(start_process: StartProcess) -> None:
    port = free_port(2)
    async with start_process("--processes=2", f"--process-address={LOOPBACK}:{port}") as process:
        assert len(await serving(process)) == 2
        for address in (process.address, f"{LOOPBACK}:{port}", f"{LOOPBACK}:{port + 1}"):
            async with AsyncTranslationClient(address) as client:
                assert len(await client.translate(SENTENCES)) == 4
        found = await scrape(process)
        assert found.value("nmt_sentences_total") == 12
        assert [found.value("nmt_process_up", process=each) for each in "01"] == [1, 1]
        # Each was called by its own address at least.
        assert min(found.value("nmt_sentences_total", process=each) for each in "01") >= 4
        # The kernel deals connections: of sixteen some go to each process, but for one time in 32,768.
        before = {each: found.value("nmt_sentences_total", process=each) for each in "01"}
        async with AsyncTranslationClient(process.address, connections=16) as client:
            await asyncio.gather(*(client.translate_one(SENTENCES[0]) for _ in range(64)))
        found = await scrape(process)
        assert all(found.value("nmt_sentences_total", process=each) > before[each] for each in "01")
        # A second server must fail, not get a part of the callers.
        command = [sys.executable, "-m", "xuanzang.server", f"--address={process.address}", "--processes=2"]
        command += ["--models=.", f"--metrics-address={LOOPBACK}:0"]
        second = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
        _, log = await second.communicate()
        assert second.returncode == 1
        assert b"cannot serve on" in log
        assert await process.stop() == 0
    assert len(process.logged("stopped")) == 2


async def test_a_killed_process_is_started_again_and_no_call_fails(start_process: StartProcess) -> None:
    async with start_process("--processes=2") as process:
        before = await serving(process)
        failed: Counter[str] = Counter()

        async def calls(client: AsyncTranslationClient) -> None:
            for _ in range(10):
                try:
                    await client.translate(SENTENCES, timeout=30)
                except Exception as error:  # noqa: BLE001 - any is a failure of the test
                    failed[repr(error)] += 1

        async with AsyncTranslationClient(process.address) as client:
            calling = asyncio.gather(*(calls(client) for _ in range(4)))
            os.kill(before[0], signal.SIGKILL)
            ended = await process.until("a server ended and is started again")
            await calling
        assert failed == {}
        assert ended["reason"] == "signal SIGKILL"
        while (await scrape(process)).value("nmt_process_up") < 2:
            await process.until_next()
        assert set(children(process.process.pid)) - set(before)
        assert (await scrape(process)).value("nmt_process_restarts_total") == 1
        assert await process.stop() == 0


async def test_a_quota_is_exact_over_all_processes(start_process: StartProcess, tmp_path: Path) -> None:
    key, port = add_key(tmp_path / "keys", "quota", "--requests-per-minute=5"), free_port(3)
    flags = ("--processes=3", f"--process-address={LOOPBACK}:{port}", f"--keys-file={tmp_path / 'keys'}")
    async with start_process(*flags) as process:
        await serving(process)

        request = translation_pb2.TranslateTextRequest(contents=["你好。"])

        async def answered(address: str) -> int:
            async with grpc.aio.insecure_channel(address) as channel:
                stub: Any = translation_pb2_grpc.TranslationServiceStub(channel)
                calls = [stub.TranslateText(request, metadata=[("x-api-key", key)], timeout=60) for _ in range(15)]
                return [await each.code() for each in calls].count(grpc.StatusCode.OK)

        counts = await asyncio.gather(*(answered(f"{LOOPBACK}:{port + number}") for number in range(3)))
        # Three quotas would be 15. One request comes back in twelve seconds.
        assert 5 <= sum(counts) <= 12
        assert (await scrape(process)).value("nmt_key_requests_total") == sum(counts)
        assert await process.stop() == 0


async def test_a_change_by_an_administrator_is_made_by_all(
    start_process: StartProcess, tiny_bundle_repository: Path, tmp_path: Path
) -> None:
    models, port = tmp_path / "models", free_port(2)
    shutil.copytree(tiny_bundle_repository, models)
    shutil.copytree(models / "tiny" / "1", models / "other" / "1")
    manifest = models / "other" / "1" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"model": "tiny"', '"model": "other"'))
    addresses = [f"--admin-address={LOOPBACK}:{free_port()}", f"--process-address={LOOPBACK}:{port}"]
    async with start_process("--processes=2", f"--models={models}", *addresses) as process:
        await serving(process)

        async def names(number: int) -> set[str]:
            async with AsyncTranslationClient(f"{LOOPBACK}:{port + number}") as client:
                return {model.name for model in await client.list_models()}

        assert [await names(number) for number in range(2)] == [{"tiny", "other"}] * 2
        address = addresses[0].partition("=")[2]
        async with grpc.aio.insecure_channel(address) as channel:
            models_service: Any = admin_pb2_grpc.ModelServiceStub(channel)
            await models_service.UnloadModel(pb.UnloadModelRequest(name="other", version="1"))
            assert [await names(number) for number in range(2)] == [{"tiny"}] * 2
            await models_service.LoadModel(pb.LoadModelRequest(name="other"))
            assert [await names(number) for number in range(2)] == [{"tiny", "other"}] * 2
        assert await process.stop() == 0


async def test_without_their_parent_the_processes_drain(start_process: StartProcess) -> None:
    async with start_process("--processes=2") as process:
        await serving(process)
        await process.stop(signal.SIGKILL)
    assert [line["drained"] for line in process.logged("stopped")] == [True, True]


async def test_models_that_cannot_be_served_end_the_start(start_process: StartProcess, tmp_path: Path) -> None:
    (tmp_path / "tiny" / "1").mkdir(parents=True)
    async with start_process("--processes=2", f"--models={tmp_path}") as process:
        assert await process.ended() == 1
    assert [line["server"] for line in process.logged("a server did not start")] == [0]


@pytest.mark.parametrize("count", ["0", "65", "-1", "many", "2.0", "²"])
def test_a_number_of_processes_that_cannot_be_is_refused(count: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "xuanzang.server", f"--processes={count}", f"--models={tmp_path}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--processes (XUANZANG_PROCESSES): must be auto or a number from 1 to 64" in done.stderr
