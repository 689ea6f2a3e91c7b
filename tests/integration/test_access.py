"""API keys from end to end: the command that makes them, a server, and both clients."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from api_keys import add_key, run_keys
from grpc_health.v1 import health_pb2, health_pb2_grpc

from xuanzang.client import AccessDeniedError, AsyncTranslationClient, InvalidRequestError, OverloadedError, StatusCode
from xuanzang.command.__main__ import main


@pytest.fixture
def keys_file(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


async def test_the_sdk_gets_each_status_with_its_details(start_server: Any, keys_file: Path) -> None:
    key = add_key(keys_file, "quota", "--requests-per-minute=2", "--characters-per-minute=1000")
    other = add_key(keys_file, "other model", "--model=large")
    async with start_server(keys_file=keys_file, anonymous=False) as running:
        for wrong in ("", "xz_unknown_key"):
            async with AsyncTranslationClient(running.address, api_key=wrong) as client:
                with pytest.raises(AccessDeniedError) as refused:
                    await client.translate_one("你好。")
            assert refused.value.code is StatusCode.UNAUTHENTICATED
        async with AsyncTranslationClient(running.address, api_key=other) as client:
            with pytest.raises(AccessDeniedError) as denied:
                await client.translate_one("你好。")
            assert await client.list_models() == []
        assert denied.value.code is StatusCode.PERMISSION_DENIED
        assert [violation.field for violation in denied.value.violations] == ["model"]
        async with AsyncTranslationClient(running.address, api_key=key) as client:
            with pytest.raises(InvalidRequestError, match="at most 1000 characters"):
                await client.translate_one("好" * 1001)
            assert [item.error async for item in client.translate_stream(["你好。"] * 2)] == [None, None]
            # The delay is longer than the timeout, so the client does not wait for it.
            with pytest.raises(OverloadedError) as over:
                await client.translate_one("你好。", timeout=5)
        assert over.value.retry_after is not None
        assert 5 < over.value.retry_after <= 30


async def test_a_running_server_follows_the_command_and_logs_no_key(start_process: Any, keys_file: Path) -> None:
    first = add_key(keys_file, "first")
    secret = "xz_guess_0123456789"
    async with start_process(f"--keys-file={keys_file}", "--no-anonymous", "--log-level=debug") as server:
        await server.until("serving")
        assert server.logged("access")[0].items() >= {"anonymous": False, "keys": 1, "tls": "off"}.items()
        async with AsyncTranslationClient(server.address, api_key=secret) as client:
            with pytest.raises(AccessDeniedError):
                await client.translate_one("你好。")
        second = add_key(keys_file, "second")
        async with AsyncTranslationClient(server.address, api_key=second) as client:
            await until_answer(client, AccessDeniedError, missing=True)
        async with AsyncTranslationClient(server.address, api_key=first) as client:
            await client.translate_one("你好。")
            run_keys(keys_file, "revoke", first.split("_")[1])
            await until_answer(client, AccessDeniedError, missing=False)
        assert await server.stop() == 0
    assert server.logged("keys reloaded")
    logged = json.dumps(server.events)
    assert not [key for key in (first, second, secret) if key in logged or key.rpartition("_")[2] in logged]


async def until_answer(client: AsyncTranslationClient, error: type[Exception], *, missing: bool) -> None:
    """Call until the error no longer comes, or does."""
    came = missing
    while came is missing:
        try:
            await client.translate_one("你好。")
            came = False
        except error:
            came = True


async def test_health_is_answered_and_the_metrics_know_keys_by_id(start_server: Any, keys_file: Path) -> None:
    import grpc

    key = add_key(keys_file, "holder")
    async with start_server(keys_file=keys_file, anonymous=False) as running:
        async with grpc.aio.insecure_channel(running.address) as channel:
            answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
        async with AsyncTranslationClient(running.address, api_key=key) as client:
            await client.translate(["你好。", "谢谢你。"])
        scrape = await running.scrape()
    label = {"key": key.split("_")[1]}
    assert scrape.value("nmt_key_requests_total", **label) == 1
    assert scrape.value("nmt_key_characters_total", **label) == 7
    assert scrape.value("nmt_key_sentences", **label) == 0
    assert scrape.value("nmt_keys") == 1


def test_the_command_shows_a_key_once_and_never_its_hash(keys_file: Path) -> None:
    key = add_key(keys_file, "holder", "--model=zh-en", "--model=en-zh/2", "--requests-per-minute=60")
    assert keys_file.stat().st_mode & 0o777 == 0o600
    content = keys_file.read_text()
    [listed] = [json.loads(line) for line in run_keys(keys_file, "list", "--json").splitlines()]
    assert {"salt", "hash"}.isdisjoint(listed)
    assert (listed["name"], listed["models"], listed["requests_per_minute"]) == ("holder", ["zh-en", "en-zh/2"], 60)
    assert key.rpartition("_")[2] not in content + json.dumps(listed) + run_keys(keys_file, "list")
    run_keys(keys_file, "revoke", listed["id"])
    assert "revoked" in run_keys(keys_file, "list")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["add", "holder", "--requests-per-minute=0"], "requests_per_minute: Input should be greater"),
        (["add", "holder", "--model=a b"], "models"),
        (["revoke", "nobody"], "has no key nobody"),
        (["list"], "keys.0.hash: String should match"),
    ],
)
def test_the_command_names_what_is_wrong_in_one_line(
    keys_file: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], reason: str
) -> None:
    add_key(keys_file, "holder")
    if arguments == ["list"]:
        content = json.loads(keys_file.read_text())
        content["keys"][0]["hash"] = "f00d"
        keys_file.write_text(json.dumps(content))
    capsys.readouterr()
    assert main(["keys", *arguments, f"--keys-file={keys_file}"]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert reason in line
    assert "f00d" not in line
