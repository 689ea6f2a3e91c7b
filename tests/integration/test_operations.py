from __future__ import annotations

import asyncio
import json
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme
from api_keys import add_key
from bundle_versions import add_good_version
from grpc_health.v1 import health_pb2, health_pb2_grpc

from xuanzang.client import (
    AsyncTranslationClient,
    InvalidRequestError,
    ModelNotFoundError,
    ServerUnavailableError,
    TLSConfig,
    Translation,
)
from xuanzang.translation.v1 import translation_pb2 as pb
from xuanzang.translation.v1 import translation_pb2_grpc

SERVICE = "xuanzang.translation.v1.TranslationService"
NAMES = ("", SERVICE, "tiny")


async def statuses(address: str, names: tuple[str, ...] = NAMES) -> set[int]:
    async with grpc.aio.insecure_channel(address) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        answers = [await stub.Check(health_pb2.HealthCheckRequest(service=name)) for name in names]
        return {answer.status for answer in answers}


async def test_health_is_serving_exactly_while_the_models_are_warm(start_server: Any) -> None:
    async with start_server(load=False) as running:
        assert await statuses(running.address, NAMES[:2]) == {health_pb2.HealthCheckResponse.NOT_SERVING}
        await running.server.load()
        assert await statuses(running.address) == {health_pb2.HealthCheckResponse.SERVING}
        await running.server.rpc.close()
        assert await statuses(running.address) == {health_pb2.HealthCheckResponse.NOT_SERVING}


async def test_metrics_count_the_requests(running: Any, client: AsyncTranslationClient) -> None:
    await running.server.rpc.join()
    before = await running.scrape()
    await client.translate(["你好。", "谢谢你。我有一只猫。"])
    assert len([item async for item in client.translate_stream(["你好。"] * 3)]) == 3
    await running.server.rpc.join()
    now = await running.scrape()
    scrape = now.since(before)
    unary = {"grpc_service": SERVICE, "grpc_method": "TranslateText", "grpc_type": "unary"}
    stream = {"grpc_service": SERVICE, "grpc_method": "StreamTranslateText", "grpc_type": "bidi_stream"}
    assert scrape.value("grpc_server_handled_total", **unary, grpc_code="OK") == 1
    assert scrape.value("grpc_server_handling_seconds_count", **unary) == 1
    assert scrape.value("grpc_server_msg_received_total", **stream) == 3
    assert scrape.value("grpc_server_msg_sent_total", **stream) == 3
    model = {"model": "tiny", "version": "1"}
    assert scrape.value("nmt_requests_total", **model) == 4
    assert scrape.value("nmt_sentences_total", **model) == 6
    assert scrape.value("nmt_request_sentences_sum", **model) == 6
    assert scrape.value("nmt_request_failures_total", **model) == 0
    assert now.value("nmt_model_ready", **model) == now.value("nmt_model_info", **model, precision="float32") == 1
    assert scrape.value("nmt_source_tokens_total", **model) == scrape.value("nmt_request_source_tokens_sum", **model)


async def test_tls_can_require_client_certificates(start_server: Any, tmp_path: Path) -> None:
    authority = trustme.CA()
    for name in ("server", "client"):
        certificate = authority.issue_cert(f"{name}.example.com")
        (tmp_path / f"{name}.pem").write_bytes(b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
        certificate.private_key_pem.write_to_path(tmp_path / f"{name}.key")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    files = {"tls_certificate": tmp_path / "server.pem", "tls_key": tmp_path / "server.key"}
    tls = TLSConfig(
        root_certificates=authority.cert_pem.bytes(),
        certificate_chain=(tmp_path / "client.pem").read_bytes(),
        private_key=(tmp_path / "client.key").read_bytes(),
        server_name="server.example.com",
    )
    async with start_server(**files, tls_client_ca=tmp_path / "ca.pem") as running:
        async with AsyncTranslationClient(running.address, tls=tls) as client:
            assert (await client.translate_one("你好。")).model == "tiny"
        async with AsyncTranslationClient(running.address) as client:
            with pytest.raises(ServerUnavailableError):
                await client.translate_one("你好。", timeout=5)


async def test_sigterm_answers_accepted_requests_and_exits_with_0(start_process: Any) -> None:
    async with start_process("--log-level=debug", "--drain-timeout-seconds=500") as server:
        await server.until("serving")
        async with AsyncTranslationClient(server.address) as client:
            calls = [
                asyncio.ensure_future(client.translate_one("我有一只猫。" * 5, min_target_length=20, timeout=500))
                for _ in range(100)
            ]
            await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
            exit_status = await server.stop()
            results = await asyncio.gather(*calls, return_exceptions=True)
    translated = [result for result in results if isinstance(result, Translation)]
    refused = [result for result in results if isinstance(result, ServerUnavailableError)]
    assert exit_status == 0
    assert len(translated) + len(refused) == 100
    assert len({translation.text for translation in translated}) == 1
    # At this level the server logs the end of every RPC: each one that it finished has reached its caller. The client
    # also watches the server's health until it stops.
    codes = [line["code"] for line in server.logged("rpc") if not line["method"].startswith("grpc.health.")]
    assert codes.count("OK") == len(translated)
    # On a busy machine the client may take a connection for broken, and cancels and repeats its calls.
    assert set(codes) <= {"OK", "UNAVAILABLE", "CANCELLED"}
    assert server.logged("stopped")[0]["drained"] is True


async def test_odd_signals_are_ignored_sigint_ends_and_neither_texts_nor_files_are_left(
    start_process: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # onnxruntime would keep its telemetry there.
    monkeypatch.delenv("ORT_DISABLE_TELEMETRY", raising=False)
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    async with start_process("--max-batch-sentences=7", "--log-level=debug") as server:
        await server.until("serving")
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            server.process.send_signal(number)
        async with AsyncTranslationClient(server.address) as client:
            await client.translate_one("小秘密", target_language="en")
        assert await server.stop(signal.SIGINT) == 0
    assert server.logged("settings")[0]["max_batch_sentences"] == 7
    assert "小秘密" not in json.dumps(server.events, ensure_ascii=False)
    assert list(tmp_path.rglob("*")) == []  # noqa: ASYNC240 - nothing else waits for this loop


async def test_sigterm_while_loading_stops_at_once(start_process: Any) -> None:
    async with start_process() as server:
        await server.until("listening")
        assert await server.stop() == 0


@pytest.mark.parametrize(
    ("flags", "status", "reason"),
    [
        (["--models=EMPTY"], 1, "no bundle"),
        (["--models=EMPTY", "--address=203.0.113.1:1", "--anonymous"], 1, "cannot serve on 203.0.113.1:1"),
        (["--models=EMPTY", "--address=127.0.0.1:0", "--probe"], 1, ""),
    ],
)
async def test_a_server_that_cannot_run_logs_the_reason(
    tmp_path: Path, flags: list[str], status: int, reason: str
) -> None:
    arguments = [flag.replace("EMPTY", str(tmp_path)) for flag in flags]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "xuanzang.server", "--metrics-address=127.0.0.1:0", *arguments),
        stderr=asyncio.subprocess.PIPE,
    )
    _, logged = await process.communicate()
    assert process.returncode == status
    assert reason in logged.decode()
    assert "Traceback" not in logged.decode()


async def test_a_stop_loses_no_request_of_callers_that_never_pause(start_server: Any) -> None:
    stopped = asyncio.Event()

    async def call_repeatedly(address: str) -> set[grpc.StatusCode]:
        codes = set()
        request = pb.TranslateTextRequest(
            contents=["你好。"], settings=pb.TranslationSettings(options=pb.DecodingOptions(max_target_length=3))
        )
        options = (("grpc.enable_retries", 0), ("grpc.use_local_subchannel_pool", 1))
        async with grpc.aio.insecure_channel(address, options) as channel:
            stub: Any = translation_pb2_grpc.TranslationServiceStub(channel)
            while not stopped.is_set():
                codes.add(await stub.TranslateText(request).code())
        return codes

    async with start_server() as running:
        callers = [asyncio.ensure_future(call_repeatedly(running.address)) for _ in range(16)]
        async with AsyncTranslationClient(running.address) as client:
            await client.translate_one("你好。")
        await running.server.drain()
        stopped.set()
        seen = [await caller for caller in callers]
    assert set().union(*seen) == {grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE}


async def test_no_call_is_lost_when_one_of_two_servers_stops(start_server: Any) -> None:
    stopped = asyncio.Event()
    options: Any = {"max_target_length": 3}

    async def call_repeatedly(addresses: list[str]) -> list[str]:
        async with AsyncTranslationClient(addresses) as client:
            texts = [(await client.translate_one("你好。", **options)).text]
            while not stopped.is_set():
                texts.append((await client.translate_one("你好。", **options)).text)
            # The other server answers later calls, too.
            return [*texts, (await client.translate_one("你好。", **options)).text]

    async with start_server() as staying, start_server() as going:
        callers = [asyncio.ensure_future(call_repeatedly([going.address, staying.address])) for _ in range(8)]
        async with AsyncTranslationClient(going.address) as client:
            expected = (await client.translate_one("你好。", **options)).text
        await going.server.drain()
        stopped.set()
        answered = await asyncio.gather(*callers)
    assert set().union(*answered) == {expected}
    assert min(map(len, answered)) > 1


@pytest.mark.parametrize(
    ("flag", "reason"),
    [
        ("--shortlist=tinny", "--shortlist names tinny, which are not served; served: tiny"),
        ("--pin=tiny/2, other/1", "other/1 is pinned and not served; tiny/2 is pinned and not served"),
    ],
)
async def test_settings_for_models_that_are_not_served_end_the_start(
    start_process: Any, flag: str, reason: str
) -> None:
    async with start_process(flag) as process:
        assert await process.ended() == 1
    [refusal] = process.logged("cannot serve")
    assert reason in refusal["reason"]


async def test_sighup_reloads_keys_certificate_glossaries_and_models(
    start_process: Any, tiny_bundle_repository: Path, tmp_path: Path
) -> None:
    # Other tests' servers store glossaries there.
    copied = shutil.copytree(tiny_bundle_repository, tmp_path / "models", ignore=shutil.ignore_patterns("glossaries"))
    models = Path(copied)
    authority = trustme.CA()
    pem = tmp_path / "server.pem"
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(pem)
    keys_file = tmp_path / "keys.json"
    add_key(keys_file, "first")
    flags = [f"--models={models}", f"--keys-file={keys_file}", f"--tls-certificate={pem}", f"--tls-key={pem}"]
    async with start_process(*flags, "--watch-models=0", "--no-detection") as server:
        await server.until("serving")
        add_good_version(models, 2)
        (models / "glossaries").mkdir()
        (models / "glossaries" / "terms.tsv").write_text("# source_language: zh\n# target_language: en\n猫\tcat\n")
        authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(pem)
        key = add_key(keys_file, "second")
        server.process.send_signal(signal.SIGHUP)
        await server.until("reloaded")
        tls = TLSConfig(root_certificates=authority.cert_pem.bytes(), server_name="localhost")
        async with AsyncTranslationClient(server.address, tls=tls, api_key=key) as client:
            assert (await client.translate_one("你好。")).model_version == "2"
        (models / "tiny" / "2" / "weights.bin").unlink()
        keys_file.write_text("no keys")
        server.events.clear()
        server.process.send_signal(signal.SIGHUP)
        await server.until("reloaded")
        assert server.logged("the old keys stay in use")
        assert await server.stop() == 0
    assert server.logged("draining")[0]["signal"] == "SIGTERM"


@pytest.mark.parametrize("limit", [0, 3600])
async def test_a_drain_answers_what_is_left_at_its_limit_or_by_sigquit(start_process: Any, limit: int) -> None:
    async with start_process(f"--drain-timeout-seconds={limit}") as server:
        await server.until("serving")
        async with AsyncTranslationClient(server.address) as client:
            texts = ["我有一只猫。" * 20] * 20
            call = asyncio.ensure_future(client.translate(texts, beam_size=16, min_target_length=60, timeout=60))
            await server.until_metric("nmt_requests_running")
            if limit:
                server.process.send_signal(signal.SIGTERM)
                draining = await server.until("draining")
                assert (draining["signal"], draining["requests"], draining["limit_seconds"]) == ("SIGTERM", 1, limit)
            assert await server.stop(signal.SIGQUIT if limit else signal.SIGTERM) == 0
            with pytest.raises(ServerUnavailableError):
                await call
    assert server.logged("stopped")[0]["drained"] is False


async def test_a_drain_says_what_is_left_and_refusals_say_why(
    start_server: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("xuanzang.server.lifecycle._PROGRESS_SECONDS", 0.001)
    async with start_server(max_content_characters=100) as running, AsyncTranslationClient(running.address) as client:
        with caplog.at_level("INFO"):
            named = client.for_caller(request_id="by-name")
            with pytest.raises(InvalidRequestError):
                await named.translate(["你好。", "猫" * 101], beam_size=0)
            with pytest.raises(ModelNotFoundError):
                await client.translate_one("你好。", model="missing")
            await running.server.rpc.join()
            call = asyncio.ensure_future(client.translate(["我有一只猫。"] * 20, min_target_length=20))
            while not running.server.rpc.running:  # noqa: ASYNC110 - an RPC begins without an event
                await asyncio.sleep(0)
            await running.server.drain()
            assert len(await call) == 20
    # The first of each, when the request was not done.
    lines = {record.message: record.__dict__ for record in reversed(caplog.records)}
    assert (lines["draining"]["signal"], lines["draining"]["requests"]) == (None, 1)
    assert lines["still draining"]["requests"] == 1
    refused = [record.__dict__ for record in caplog.records if record.message == "rpc"]
    assert [line["reason"] for line in refused] == ["fields", "model"]
    assert refused[0]["request_id"] == "by-name"
    assert any("beam_size" in field for field in refused[0]["fields"])
    assert "猫" not in str(refused)
