from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme
from grpc_health.v1 import health_pb2, health_pb2_grpc

from xuanzang.server.access.tls import CertificateError, TLSFiles, check_certificate
from xuanzang.server.probe import is_serving
from xuanzang.server.watched_files import reload_changed
from xuanzang.translation.v1 import translation_pb2 as pb
from xuanzang.translation.v1 import translation_pb2_grpc

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


async def health(served: Any, service: str) -> int:
    stub = health_pb2_grpc.HealthStub(served.channel)
    status: int = (await stub.Check(health_pb2.HealthCheckRequest(service=service))).status
    return status


async def test_health_of_an_unknown_service_is_not_found(serve: Any) -> None:
    async with serve() as served:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await health(served, "nothing")
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND


async def test_a_watcher_does_not_delay_the_stop(served: Any) -> None:
    stub = health_pb2_grpc.HealthStub(served.channel)
    watch = stub.Watch(health_pb2.HealthCheckRequest())
    await watch.read()
    await served.rpc.close()
    await served.rpc.join()
    assert await served.rpc.stop() == 0


async def test_an_rpc_that_arrives_during_the_stop_is_refused_not_cancelled(serve: Any) -> None:
    async with serve() as served:
        await served.rpc.close()
        refusal = served.stub.TranslateText(pb.TranslateTextRequest(contents=["before"]))
        assert await refusal.code() == grpc.StatusCode.UNAVAILABLE
        stopping = asyncio.create_task(served.rpc.stop())
        # These start once the server waits for late RPCs.
        await asyncio.sleep(0)
        calls = [served.stub.TranslateText(pb.TranslateTextRequest(contents=[text])) for text in "abcdefgh"]
        codes = await asyncio.gather(*(call.code() for call in calls))
        assert await stopping == 0
        late = served.stub.TranslateText(pb.TranslateTextRequest(contents=["after"]))
        assert {*codes, await late.code()} == {grpc.StatusCode.UNAVAILABLE}
    assert served.engine.running == served.engine.cancelled == []


async def test_a_message_over_the_limit_is_refused(serve: Any) -> None:
    async with serve(max_message_bytes=2000) as served:
        await served.stub.TranslateText(pb.TranslateTextRequest(contents=["x" * 1900]))
        call = served.stub.TranslateText(pb.TranslateTextRequest(contents=["x" * 2000]))
        assert await call.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_an_old_connection_is_closed_once_its_rpcs_are_done(serve: Any) -> None:
    async with serve(connection_age_seconds=2) as served:
        held = served.engine.hold("a")
        call = served.stub.TranslateText(pb.TranslateTextRequest(contents=["a"]))
        await served.engine.until(served.engine.running, {"a"})
        assert served.channel.get_state() is grpc.ChannelConnectivity.READY
        await served.channel.wait_for_state_change(grpc.ChannelConnectivity.READY)
        held.set()
        assert await call.code() == grpc.StatusCode.OK
        assert await served.stub.TranslateText(pb.TranslateTextRequest(contents=["b"])).code() == grpc.StatusCode.OK


async def test_a_second_server_on_the_same_port_fails(serve: Any, served_model: Any) -> None:
    async with serve() as served:
        with pytest.raises(OSError, match=f"cannot serve on 127.0.0.1:{served.rpc.port}"):
            await serve(address=f"127.0.0.1:{served.rpc.port}").__aenter__()


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def tls(authority: trustme.CA, tmp_path: Path) -> TLSFiles:
    certificate = authority.issue_cert("translate.example.com")
    files = TLSFiles(certificate=tmp_path / "chain.pem", key=tmp_path / "key.pem", client_ca=tmp_path / "ca.pem")
    files.certificate.write_bytes(b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
    certificate.private_key_pem.write_to_path(files.key)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    return files


async def test_new_connections_see_new_files_old_ones_stay(serve: Any, tls: TLSFiles, authority: trustme.CA) -> None:
    def replace(issuer: trustme.CA, name: str) -> None:
        issued = issuer.issue_cert(name)
        tls.certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        issued.private_key_pem.write_to_path(tls.key)

    plain = dataclasses.replace(tls, client_ca=None)
    newer = trustme.CA()
    async with serve(tls=plain) as served:
        async with _secure_channel(authority, served.rpc.port) as old:
            assert await _translated(old) == grpc.StatusCode.OK
            replace(newer, "translate.example.com")
            await reload_changed([served.tls])
            assert await _translated(old) == grpc.StatusCode.OK
        async with _secure_channel(newer, served.rpc.port) as new:
            assert await _translated(new) == grpc.StatusCode.OK
        async with _secure_channel(authority, served.rpc.port) as outdated:
            assert await _translated(outdated) == grpc.StatusCode.UNAVAILABLE
        assert served.value("nmt_file_reloads_total", file="tls", result="ok") == 1


async def test_the_expiry_of_certificates_is_shown(serve: Any, tls: TLSFiles, authority: trustme.CA) -> None:
    async with serve(tls=tls) as served:
        for certificate in ("server", "client_ca"):
            assert served.value("nmt_tls_certificate_expiry_timestamp_seconds", certificate=certificate) > time.time()
        renewed = datetime.now(UTC) + timedelta(days=99)
        issued = authority.issue_cert("translate.example.com", not_after=renewed)
        issued.private_key_pem.write_to_path(str(tls.key))
        tls.certificate.write_bytes(issued.cert_chain_pems[0].bytes())
        await reload_changed([served.tls])
        shown = served.value("nmt_tls_certificate_expiry_timestamp_seconds", certificate="server")
        assert shown == int(renewed.timestamp())


async def test_authorities_of_clients_are_reloaded(serve: Any, tls: TLSFiles, authority: trustme.CA) -> None:
    newer = trustme.CA()
    assert tls.client_ca is not None
    async with serve(tls=tls) as served:
        for issuer in (authority, newer):
            issuer.cert_pem.write_to_path(str(tls.client_ca))
            await reload_changed([served.tls])
            for client in (authority, newer):
                async with _secure_channel(authority, served.rpc.port, own=client) as channel:
                    expected = grpc.StatusCode.OK if client is issuer else grpc.StatusCode.UNAVAILABLE
                    assert await _translated(channel) == expected


@pytest.mark.parametrize("damaged", ["certificate", "key", "client_ca"])
async def test_unmatched_files_change_nothing(serve: Any, tls: TLSFiles, authority: trustme.CA, damaged: str) -> None:
    async with serve(tls=tls) as served:
        getattr(tls, damaged).write_bytes(trustme.CA().issue_cert("x").private_key_pem.bytes())
        await reload_changed([served.tls])
        assert served.value("nmt_file_current", file="tls") == 0
        async with _secure_channel(authority, served.rpc.port, own=authority) as channel:
            assert await _translated(channel) == grpc.StatusCode.OK


def _secure_channel(trusted: trustme.CA, port: int, *, own: trustme.CA | None = None) -> grpc.aio.Channel:
    """Return a channel with a connection of its own."""
    pair: tuple[bytes | None, bytes | None] = (None, None)
    if own is not None:
        issued = own.issue_cert("client.example.com")
        pair = issued.private_key_pem.bytes(), b"".join(blob.bytes() for blob in issued.cert_chain_pems)
    credentials = grpc.ssl_channel_credentials(trusted.cert_pem.bytes(), *pair)
    options = (("grpc.ssl_target_name_override", "translate.example.com"), ("grpc.use_local_subchannel_pool", 1))
    return grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials, options)


async def _translated(channel: grpc.aio.Channel) -> grpc.StatusCode:
    stub: Any = translation_pb2_grpc.TranslationServiceStub(channel)
    code: grpc.StatusCode = await stub.TranslateText(pb.TranslateTextRequest(contents=["a"])).code()
    return code


async def test_the_probe_connects_over_tls_with_the_servers_certificate(serve: Any, tls: TLSFiles) -> None:
    async with serve(tls=tls) as served:
        address = f"127.0.0.1:{served.rpc.port}"
        assert await asyncio.to_thread(is_serving, address, tls_certificate=tls.certificate, tls_key=tls.key)
        await served.rpc.close()
        assert not await asyncio.to_thread(is_serving, address, tls_certificate=tls.certificate, tls_key=tls.key)


NOW = datetime.now(UTC)


def written(folder: Path, *, not_before: datetime, not_after: datetime) -> tuple[Path, Path]:
    issued = trustme.CA().issue_cert("translate.example.com", not_before=not_before, not_after=not_after)
    certificate, key = folder / "chain.pem", folder / "key.pem"
    certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(key)
    return certificate, key


@pytest.mark.parametrize(
    ("begin", "end", "reason"), [(-9, -1, "certificate has expired"), (1, 9, "certificate is not yet valid")]
)
def test_a_certificate_that_is_not_valid_today_is_refused(tmp_path: Path, begin: int, end: int, reason: str) -> None:
    files = written(tmp_path, not_before=NOW + timedelta(days=begin), not_after=NOW + timedelta(days=end))
    with pytest.raises(CertificateError, match=f"chain.pem: {reason}"):
        check_certificate(*files)


@pytest.mark.parametrize(("days", "warnings"), [(3, 1), (300, 0)])
def test_an_early_end_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture, days: int, warnings: int) -> None:
    check_certificate(*written(tmp_path, not_before=NOW - timedelta(days=1), not_after=NOW + timedelta(days=days)))
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * warnings


def test_the_key_of_another_certificate_and_what_is_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (junk := tmp_path / "junk.pem").write_text("junk")
    certificate, _ = written(tmp_path, not_before=NOW, not_after=NOW + timedelta(days=9))
    _, key = written(tmp_path / "other", not_before=NOW, not_after=NOW + timedelta(days=9))
    for pair, name in (((certificate, key), r"key\.pem"), ((junk, junk), r"junk\.pem")):
        with pytest.raises(CertificateError, match=name):
            check_certificate(*pair)
