"""Keys, limits, health and the end of a gateway."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import deepl
import pytest
import trustme
from api_keys import add_key
from gateways import Answer, RunningGateway, gateway_process, running_gateway, started_gateway
from prometheus_client.parser import text_string_to_metric_families

ASK: Any = {"texts": ["我有一只猫。"], "source_language": "zh", "target_language": "en"}
LONG = {"beam_size": 16, "min_target_length": 60, "max_target_length": 60}


async def raw(port: int, *pieces: bytes) -> bytes:
    """Send bytes and return everything that is answered until the connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


async def test_keys_reach_the_server_whatever_the_api(start_server: Any, tmp_path: Path) -> None:
    key = add_key(tmp_path / "keys.json", "holder")
    small = add_key(tmp_path / "keys.json", "small", "--characters-per-minute=6")
    async with (
        start_server(keys_file=tmp_path / "keys.json", anonymous=False) as running,
        running_gateway(running.address) as gateway,
    ):
        form = {"q": "猫", "source": "zh", "target": "en"}
        assert (await gateway.post("/v1/translate", json=ASK, authorization=f"Bearer {key}")).status == 200
        assert (await gateway.post("/translate", json=form | {"api_key": key})).status == 200
        client = deepl.Translator(key, server_url=gateway.url)
        await asyncio.to_thread(client.translate_text, "猫", source_lang="ZH", target_lang="EN-GB")
        await asyncio.to_thread(client.get_usage)
        for path, body, status in (("/v1/translate", ASK, 401), ("/translate", form, 403)):
            assert (await gateway.post(path, json=body)).status == status
        wrong = deepl.Translator("wrong", server_url=gateway.url)
        with pytest.raises(deepl.AuthorizationException):
            await asyncio.to_thread(wrong.get_usage)
        assert (await gateway.post("/v1/translate", json=ASK, authorization=f"Bearer {small}")).status == 200
        refused = await gateway.post("/v1/translate", json=ASK, authorization=f"Bearer {small}")
        assert refused.status == 429
        assert int(refused.headers["retry-after"]) >= refused.json["retry_after_seconds"] > 0
        assert (await gateway.get("/health")).json == {"status": "ok", "models": {}}


async def test_a_request_keeps_its_id_down_to_the_server(start_server: Any, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    async with start_server(access_log=str(log)) as running, running_gateway(running.address) as gateway:
        chosen = await gateway.post("/v1/translate", json=ASK, x_request_id="mine-1")
        made = await gateway.post("/v1/translate", json=ASK, x_request_id="no good id")
    assert chosen.headers["x-request-id"] == "mine-1"
    assert len(made.headers["x-request-id"]) == 32
    logged = log.read_text(encoding="utf-8")
    assert "mine-1" in logged
    assert made.headers["x-request-id"] in logged


async def test_bodies_are_limited_in_size(running: Any) -> None:
    async with running_gateway(running.address, max_body_bytes=1024) as gateway:
        large = await gateway.post("/v1/translate", data=b"x" * 1025)
        assert (large.status, large.json["detail"]) == (413, "the body must have at most 1024 bytes")
        packed = await gateway.post("/v1/translate", data=b"{}", content_encoding="gzip")
        assert packed.status == 415
        assert packed.json["detail"] == "the body must not be encoded, as its content-encoding says: gzip"
        chunked = (
            b"POST /v1/translate HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        assert b" 413 " in await raw(gateway.port, chunked, b"401\r\n" + b"x" * 1025 + b"\r\n")
        assert (await gateway.get("/v1/models")).status == 200


async def test_bodies_and_heads_are_limited_in_time(running: Any) -> None:
    async with running_gateway(running.address, receive_timeout_seconds=2) as gateway:
        begun = b"POST /translate HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 10\r\n\r\nq="
        # A body and a head that do not end, and none at all.
        body, head, nothing = await asyncio.gather(
            raw(gateway.port, begun), raw(gateway.port, b"GET /v1/models HTTP/1.1\r\nhost: "), raw(gateway.port)
        )
        assert b" 408 " in body
        assert (head, nothing) == (b"", b"")
        assert (await gateway.get("/v1/models")).status == 200


async def test_requests_in_progress_are_limited(running: Any) -> None:
    async with running_gateway(running.address, max_concurrent_requests=1) as gateway:
        body = ASK | {"texts": [*ASK["texts"]] * 40, "options": LONG}
        answers = await asyncio.gather(*(gateway.post("/v1/translate", json=body) for _ in range(4)))
    found = sorted(answer.status for answer in answers)
    assert found[0] == 200
    assert found[-1] == 503
    refused = next(answer for answer in answers if answer.status == 503)
    assert refused.headers["retry-after"] == "1"


async def test_a_server_that_is_gone_is_unavailable_without_its_address(unused_address: str) -> None:
    async with running_gateway(unused_address, request_timeout_seconds=0.5) as gateway:
        answer = await gateway.post("/v1/translate", json=ASK)
        health = await gateway.get("/health")
        assert (await gateway.get("/livez")).status == 200
    assert answer.status in (503, 504)
    assert unused_address not in answer.body.decode()
    assert (health.status, health.json) == (503, {"status": "unavailable"})


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGQUIT])
async def test_a_stopped_gateway_answers_what_it_has_accepted_and_logs_no_text(
    running: Any, ending: signal.Signals
) -> None:
    async with gateway_process(f"--server={running.address}") as (process, gateway):
        body = ASK | {"texts": [*ASK["texts"]] * 40, "options": LONG}
        answering = asyncio.create_task(gateway.post("/v1/translate?note=secret", json=body))
        await running.until_metric("nmt_requests_running")
        process.send_signal(ending)
        assert process.stderr is not None
        log = (await process.stderr.read()).decode()
        assert await process.wait() == 0
        [answer] = await asyncio.gather(answering, return_exceptions=True)
    lines = [json.loads(line) for line in log.splitlines()]
    if ending is signal.SIGTERM:
        assert isinstance(answer, Answer)
        assert answer.status == 200
        assert [line["status"] for line in lines if line["event"] == "request"] == [200]
    # A request that is ended is no error.
    assert lines[-1]["event"] == "stopped"
    assert {line["level"] for line in lines} == {"info"}
    assert "猫" not in log
    assert "secret" not in log


async def test_sighup_reloads_the_certificate_unless_it_is_damaged(tmp_path: Path) -> None:
    authority, pem = trustme.CA(), tmp_path / "gateway.pem"
    trusting = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())

    def renew() -> None:
        authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(pem)

    renew()
    async with gateway_process(f"--tls-certificate={pem}", f"--tls-key={pem}") as (process, gateway):
        log = process.stderr
        assert log is not None

        async def shown() -> object:
            _, writer = await asyncio.open_connection(
                "127.0.0.1", gateway.port, ssl=trusting, server_hostname="localhost"
            )
            certificate = writer.get_extra_info("peercert")
            writer.close()
            await writer.wait_closed()
            return certificate["serialNumber"]

        async def reloaded() -> str:
            process.send_signal(signal.SIGHUP)
            async with asyncio.timeout(30):
                return str(json.loads(await log.readline())["event"])

        first = await shown()
        renew()
        assert await shown() == first
        assert await reloaded() == "certificate reloaded"
        second = await shown()
        assert second != first
        pem.write_text("no certificate")
        assert await reloaded() == "the old certificate stays in use"
        assert await shown() == second


async def test_other_signals_end_no_gateway(running: Any) -> None:
    async with gateway_process(f"--server={running.address}") as (process, gateway):
        body = ASK | {"texts": [*ASK["texts"]] * 40, "options": LONG}
        answering = asyncio.create_task(gateway.post("/v1/translate", json=body))
        for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
            process.send_signal(number)
        while not answering.done():
            assert (await gateway.get("/livez")).status == 200
        assert (await answering).status == 200


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--address=0.0.0.0:0"], "who may call must be said"),
        (["--address=here"], "--address (XUANZANG_GATEWAY_ADDRESS): must be host:port"),
        (["--max-texts=0"], "--max-texts (XUANZANG_GATEWAY_MAX_TEXTS)"),
        (["--tls-key=" + __file__], "must be given together"),
    ],
)
async def test_wrong_settings_are_explained(flags: list[str], message: str) -> None:
    process = await started_gateway(*flags)
    _, errors = await process.communicate()
    assert process.returncode == 2
    assert message in errors.decode()


async def test_metrics_count_requests_by_api_and_status_and_are_documented(running: Any) -> None:
    flags = (f"--server={running.address}", "--metrics-address=127.0.0.1:0")
    async with gateway_process(*flags) as (_, gateway):
        await gateway.get("/v2/languages")
        await gateway.post("/v1/translate", json={"texts": []})
        assert gateway.metrics_port is not None
        samples: dict[tuple[str, ...], float] = {}
        # A request is counted when its caller has the answer already.
        async with asyncio.timeout(30):
            while ("nmt_gateway_requests_total", "json", "400") not in samples:
                scraped = (await RunningGateway(port=gateway.metrics_port).get("/metrics")).body.decode()
                families = list(text_string_to_metric_families(scraped))
                samples = {(one.name, *one.labels.values()): one.value for each in families for one in each.samples}
    assert samples["nmt_gateway_requests_total", "deepl", "200"] == 1
    assert samples["nmt_gateway_requests_total", "json", "400"] == 1
    assert samples["nmt_gateway_request_seconds_count", "deepl"] == 1
    assert samples["nmt_gateway_requests_in_progress",] == 0
    assert samples["nmt_gateway_documents", "queued"] == 0
    docs = (Path(__file__).parents[2] / "docs" / "gateway.md").read_text(encoding="utf-8")
    for family in families:
        if family.type == "counter" or not family.name.endswith("_created"):
            assert f"`{family.name}" in docs


@pytest.fixture
def unused_address() -> Iterator[str]:
    """Yield an address that refuses connections: it is bound, and nothing listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"
