"""Two replicas under the client while something goes wrong around them: every call has its answer, and the same one."""

from __future__ import annotations

import asyncio
import collections
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from free_ports import LOOPBACK, free_port
from replicas import Replica
from test_client_replicas import CALLERS, TIMEOUT, Faults, call_from_threads

from xuanzang.client import AsyncTranslationClient, TranslationClient
from xuanzang.translation.v1 import translation_pb2 as pb
from xuanzang.translation.v1.translation_pb2_grpc import TranslationServiceStub

pytestmark = pytest.mark.slow

TEXT = "我有一只猫。"


def test_replicas_replaced_one_after_the_other_lose_no_call(
    start: Callable[..., Replica], replicas: tuple[Replica, Replica]
) -> None:
    first, second = replicas
    successors: list[Replica] = []

    def replace(old: Replica) -> None:
        old.send(signal.SIGTERM)
        assert old.process.wait(timeout=60) == 0
        successors.append(start(int(old.address.rpartition(":")[2])))
        successors[-1].ready()

    faults = Faults((50, lambda: replace(first)), (300, lambda: replace(second)))
    texts = call_from_threads([first.address, second.address], 600, faults)
    assert faults.all_happened()
    assert len(texts) == 600
    assert len(set(texts)) == 1
    assert all(successor.process.poll() is None for successor in successors)


def damage(models: Path) -> None:
    """Replace every file of a bundle by others of the same names, and then the folder."""
    bundle = models / "tiny" / "1"
    for file in list(bundle.iterdir()):
        replacement = bundle / f"{file.name}.new"
        replacement.write_bytes(b"damaged")
        replacement.replace(file)
    bundle.rename(models.parent / "moved")
    bundle.mkdir()
    (bundle / "manifest.json").write_text("{}")


def test_bundles_replaced_under_running_servers_change_no_answer(
    start: Callable[..., Replica], tiny_bundle_repository: Path, tmp_path: Path
) -> None:
    models = tmp_path / "models"
    shutil.copytree(tiny_bundle_repository, models)
    replicas = [start(models=models) for _ in range(2)]
    for replica in replicas:
        replica.ready()
    addresses = [replica.address for replica in replicas]
    expected = set(call_from_threads(addresses, 8, Faults()))
    faults = Faults((50, lambda: damage(models)))
    texts = call_from_threads(addresses, 300, faults)
    assert faults.all_happened()
    assert len(texts) == 300
    assert set(texts) == expected
    assert [replica.process.poll() for replica in replicas] == [None, None]
    # A server that starts now sees what the running ones do not.
    command = [sys.executable, "-m", "xuanzang.server", f"--models={models}", "--address=127.0.0.1:0"]
    late = subprocess.run([*command, "--metrics-address=127.0.0.1:0"], capture_output=True, timeout=120, check=False)
    assert late.returncode == 1


def test_a_full_disk_for_the_log_costs_no_call(tiny_bundle_repository: Path) -> None:
    address = f"{LOOPBACK}:{free_port()}"
    command = [sys.executable, "-m", "xuanzang.server", f"--models={tiny_bundle_repository}", f"--address={address}"]
    with Path("/dev/full").open("wb") as full:
        server = subprocess.Popen(
            [*command, "--metrics-address=127.0.0.1:0", "--workers=1", "--log-level=debug"], stderr=full
        )
    try:
        with grpc.insecure_channel(address) as channel:
            grpc.channel_ready_future(channel).result(timeout=60)
        assert len(set(call_from_threads([address], 100, Faults()))) == 1
        assert server.poll() is None
        server.terminate()
        assert server.wait(timeout=60) == 0
    finally:
        server.kill()
        server.wait()


def test_a_reader_as_slow_as_a_slow_disk_holds_up_nobody(replicas: tuple[Replica, Replica]) -> None:
    addresses = [replica.address for replica in replicas]
    texts = [f"{TEXT}{number}" for number in range(300)]
    with TranslationClient(addresses, timeout=TIMEOUT) as client:
        stream = client.translate_stream(iter(texts), ordered=True, max_in_flight=16)
        results = [next(stream)]
        assert len(call_from_threads(addresses, 200, Faults())) == 200
        results += stream
    assert [(each.source, each.error) for each in results] == [(text, None) for text in texts]


async def storm(server: Any, waves: int, calls: int) -> collections.Counter[grpc.StatusCode]:
    """Make calls by waves and cancel all of a wave with the first answer to one of it."""
    codes: collections.Counter[grpc.StatusCode] = collections.Counter()
    for wave in range(waves):
        # The same texts as the client's would hide a mix-up of answers.
        request = pb.TranslateTextRequest(contents=[f"{TEXT}{wave}"] * 4)
        # Without a deadline none is refused because the machine is slow.
        storming = [server.stub.TranslateText(request) for _ in range(calls)]
        ends = [asyncio.ensure_future(call.code()) for call in storming]
        for end in asyncio.as_completed(ends):
            if await end is grpc.StatusCode.OK:
                break
        for call in storming:
            call.cancel()
        codes.update(await asyncio.gather(*ends))
    return codes


async def until_zero(server: Any, name: str) -> None:
    """Wait until nothing of a gauge is left; a cancelled call leaves between two steps."""
    async with asyncio.timeout(60):
        while await asyncio.to_thread(server.value, name) > 0:
            pass


async def test_cancel_storms_harm_nobody_and_leave_nothing_behind(attack: Any) -> None:
    async with attack() as first, attack() as second:
        servers = first, second
        addresses = [f"127.0.0.1:{server.port}" for server in servers]
        slots = asyncio.Semaphore(CALLERS)
        async with AsyncTranslationClient(addresses, timeout=TIMEOUT, client_id="calm") as client:

            async def call() -> str:
                async with slots:
                    return (await client.translate_one(TEXT, max_target_length=8)).text

            storms = [asyncio.create_task(storm(server, waves=10, calls=100)) for server in servers]
            texts = await asyncio.gather(*(call() for _ in range(200)))
            for codes in await asyncio.gather(*storms):
                # Beyond the streams of a connection gRPC refuses, which is UNAVAILABLE.
                assert codes.keys() <= {grpc.StatusCode.OK, grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE}
                assert codes.total() == 1000
                assert codes[grpc.StatusCode.OK] > 0
        assert set(texts) == {first.expected}
        for server in servers:
            for gauge in ("nmt_requests_running", "nmt_requests_waiting", "nmt_queue_tokens"):
                await until_zero(server, gauge)
            await server.check()


def limit_memory(pid: int, *, spare_bytes: int) -> None:
    """Let a process have hardly more address space than it has."""
    status = Path(f"/proc/{pid}/status").read_text()
    size = 1024 * int(status.partition("VmSize:")[2].split()[0]) + spare_bytes
    resource.prlimit(pid, resource.RLIMIT_AS, (size, size))


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="limits of other processes are Linux's")
def test_no_call_is_lost_when_a_replica_gets_no_more_memory(replicas: tuple[Replica, Replica]) -> None:
    poor, other = replicas
    texts = [TEXT * (1 + number % 6) for number in range(150)]
    expected = translated([other.address], texts)
    limit_memory(poor.process.pid, spare_bytes=0)
    # The process ends, by itself or by gRPC's core; what counts is that callers go on.
    assert translated([poor.address, other.address], texts) == expected
    assert other.process.poll() is None


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="limits of other processes are Linux's")
@pytest.mark.parametrize("spare_mebibytes", [1, 4, 8, 12])
def test_a_server_without_memory_ends_and_its_callers_know(start: Callable[..., Replica], spare_mebibytes: int) -> None:
    poor = start()
    poor.ready()
    with grpc.insecure_channel(poor.address) as channel, ThreadPoolExecutor(32) as pool:
        stub = TranslationServiceStub(channel)

        def code(number: int) -> grpc.StatusCode:
            request = pb.TranslateTextRequest(contents=[TEXT * (1 + number % 6)])
            try:
                stub.TranslateText(request, timeout=TIMEOUT)
            except grpc.RpcError as error:
                failed: grpc.StatusCode = error.code()
                return failed
            return grpc.StatusCode.OK

        limit_memory(poor.process.pid, spare_bytes=spare_mebibytes * 2**20)
        codes = set(pool.map(code, range(150)))
    assert codes <= {grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE}
    # It ended, by itself or by gRPC's core, unless it has room for all calls.
    assert codes == {grpc.StatusCode.OK} or poor.process.wait(timeout=TIMEOUT) != 0


def translated(addresses: list[str], texts: list[str]) -> list[str]:
    """Translate texts by single calls with large searches, many at a time."""
    with TranslationClient(addresses, timeout=10 * TIMEOUT) as client, ThreadPoolExecutor(32) as pool:
        return list(pool.map(lambda text: client.translate_one(text, beam_size=16).text, texts))
