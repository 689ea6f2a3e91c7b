"""Addresses of their own for administration and health: who is answered on each."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
from api_keys import add_key
from grpc_health.v1 import health_pb2, health_pb2_grpc

from xuanzang.client import AccessDeniedError, AsyncTranslationClient, StatusCode
from xuanzang.client._commands.admin import run_admin_command
from xuanzang.server.lifecycle import BrokenServerError
from xuanzang.server.probe import is_serving


@pytest.fixture
def keys(tmp_path: Path) -> Mapping[str, str]:
    """Return a key of each role, and the path of their file."""
    file = tmp_path / "keys.json"
    return {"file": str(file), **{role: add_key(file, role, f"--role={role}") for role in ("caller", "admin")}}


class Administrator:
    """The command `models list`, with and without a key."""

    def __init__(self, running: Any, capsys: pytest.CaptureFixture[str]) -> None:
        self._environment = {"XUANZANG_ADMIN_ADDRESS": str(running.server.admin.port)}
        self._capsys = capsys

    async def list(self, *flags: str, key: str = "") -> str:
        """Return the first word of what the command says."""
        environment = self._environment | ({"XUANZANG_API_KEY": key} if key else {})
        await asyncio.to_thread(run_admin_command, ["list", *flags], environment=environment)
        captured = self._capsys.readouterr()
        return (captured.out or captured.err.partition("error: ")[2]).replace(":", "\t").partition("\t")[0]


async def test_only_keys_of_the_role_admin_administer(
    start_server: Any, keys: Mapping[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    settings = {"keys_file": keys["file"], "admin_address": "0", "admin_anonymous": False}
    async with start_server(**settings) as running:
        administrator = Administrator(running, capsys)
        assert await administrator.list() == "UNAUTHENTICATED"
        assert await administrator.list(key="xz_wrong_00") == "UNAUTHENTICATED"
        assert await administrator.list(key=keys["caller"]) == "PERMISSION_DENIED"
        assert await administrator.list(key=keys["admin"]) == "tiny/1"
        (tmp_path / "key").write_text(keys["admin"] + "\n")
        assert await administrator.list(f"--api-key-file={tmp_path / 'key'}") == "tiny/1"
        scrape = await running.scrape()
        assert scrape.value("nmt_access_refusals_total", reason="role") == 1


async def test_a_key_of_the_role_admin_does_not_translate(start_server: Any, keys: Mapping[str, str]) -> None:
    async with start_server(keys_file=keys["file"], anonymous=False) as running:
        async with AsyncTranslationClient(running.address, api_key=keys["admin"]) as client:
            with pytest.raises(AccessDeniedError) as refused:
                await client.translate_one("你好。")
        assert refused.value.code is StatusCode.PERMISSION_DENIED
        async with AsyncTranslationClient(running.address, api_key=keys["caller"]) as client:
            assert (await client.translate_one("你好。")).model == "tiny"


async def test_health_has_a_listener_of_its_own_that_does_nothing_else(start_server: Any) -> None:
    async with start_server(load=False, health_address="127.0.0.1:0") as running:
        address = f"127.0.0.1:{running.server.health.port}"
        assert not await asyncio.to_thread(is_serving, address, tls_certificate=None, tls_key=None)
        await running.server.load()
        assert await asyncio.to_thread(is_serving, address, tls_certificate=None, tls_key=None)
        async with AsyncTranslationClient(address) as client:
            with pytest.raises(Exception, match=r".") as refused:
                await client.translate_one("你好。")
        assert refused.value.code is StatusCode.UNIMPLEMENTED  # type: ignore[attr-defined]


async def test_who_watches_health_apart_from_callers_sees_the_drain(start_server: Any) -> None:
    async with (
        start_server(health_address="127.0.0.1:0") as running,
        grpc.aio.insecure_channel(f"127.0.0.1:{running.server.health.port}") as channel,
    ):
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(service="tiny"))
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
        await running.server.rpc.close()
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING


async def test_a_server_that_has_lost_a_worker_stops_serving_and_ends(
    start_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with start_server(load=False, drain_timeout_seconds=5) as running:
        server = running.server
        statuses = []

        async def watch() -> None:
            async with grpc.aio.insecure_channel(running.address) as channel:
                stub = health_pb2_grpc.HealthStub(channel)
                async for answer in stub.Watch(health_pb2.HealthCheckRequest()):
                    statuses.append(answer.status)
                    if answer.status == health_pb2.HealthCheckResponse.SERVING:
                        monkeypatch.setattr(server.engine._threads.scheduler, "take", None)
                        server.engine._threads.scheduler.wake(0)

        monkeypatch.setattr(server, "listen", lambda: asyncio.sleep(0))
        watching = asyncio.create_task(watch())
        with pytest.raises(BrokenServerError, match="a worker"):
            await server.run()
        # The end of the server ends the watch, after what it was told.
        async with asyncio.timeout(60):
            with suppress(grpc.aio.AioRpcError):
                await watching
    serving, not_serving = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
    assert [status for status in statuses if status in (serving, not_serving)][-2:] == [serving, not_serving]
