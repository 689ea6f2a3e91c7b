"""The real HAProxy and nginx with deploy/haproxy and deploy/nginx before real servers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from proxies import CONFIGURATIONS, proxy
from replica_set import ReplicaSet, replica_set

from xuanzang.admin.v1 import admin_pb2, admin_pb2_grpc
from xuanzang.client import InvalidRequestError, TranslationClient

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
MODELS = ROOT / "server" / "models"
TEXT = "我有一只猫。"


@pytest.fixture(scope="module")
def servers() -> Iterator[ReplicaSet]:
    with replica_set(MODELS, 2) as servers:
        yield servers


@pytest.fixture(scope="module", params=CONFIGURATIONS)
def address(
    request: pytest.FixtureRequest, servers: ReplicaSet, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    with proxy(request.param, servers.addresses, tmp_path_factory.mktemp("proxy")) as address:
        yield address


def test_every_kind_of_call_passes(address: str) -> None:
    with TranslationClient(address) as client:
        whole = client.translate_one(TEXT).text
        parts = [part.text_delta for part in client.translate_progressively(TEXT)]
        streamed = [each.translation.text for each in client.translate_stream([TEXT] * 300, ordered=True)]
        assert ("".join(parts), set(streamed), len(streamed)) == (whole, {whole}, 300)
        assert {model.name for model in client.list_models()} == {"zh-en", "en-zh"}
        assert len(client.translate([TEXT] * 1000)) == 1000


def test_a_stream_passes_text_by_text(address: str) -> None:
    answered = threading.Semaphore(0)

    def one_at_a_time() -> Iterator[str]:
        for _ in range(5):
            yield TEXT
            assert answered.acquire(timeout=30)

    with TranslationClient(address) as client:
        for each in client.translate_stream(one_at_a_time(), timeout=20):
            assert each.error is None
            answered.release()


def test_errors_keep_their_details(address: str) -> None:
    with TranslationClient(address) as client, pytest.raises(InvalidRequestError) as raised:
        client.translate([TEXT], beam_size=99)
    assert [each.field for each in raised.value.violations] == ["options.beam_size"]


def test_health_is_checked_and_not_watched_and_administration_is_closed(address: str) -> None:
    with grpc.insecure_channel(address) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        request = health_pb2.HealthCheckRequest()
        assert health.Check(request).status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.RpcError) as watched:
            next(health.Watch(request))
        assert watched.value.code() is grpc.StatusCode.UNIMPLEMENTED
        with pytest.raises(grpc.RpcError) as administered:
            admin_pb2_grpc.ModelServiceStub(channel).ListModels(admin_pb2.ListModelsRequest())
        assert administered.value.code() is grpc.StatusCode.PERMISSION_DENIED


@pytest.mark.parametrize("name", CONFIGURATIONS)
@pytest.mark.parametrize("drains", [False, True])
async def test_no_call_fails_when_a_server_ends(name: str, tmp_path: Path, drains: bool) -> None:
    with replica_set(MODELS, 2) as servers, proxy(name, servers.addresses, tmp_path) as address:
        faults: list[Exception] = []
        ended = threading.Event()

        def call() -> None:
            with TranslationClient(address) as client:
                while not ended.is_set():
                    try:
                        client.translate_one(TEXT, timeout=20)
                    except Exception as error:  # noqa: BLE001 - counted
                        faults.append(error)

        callers = [threading.Thread(target=call) for _ in range(4)]
        for caller in callers:
            caller.start()
        try:
            for index in (0, 1):
                if drains:
                    assert await servers.drain(index, 0.5) == 0
                else:
                    await servers.kill(index)
                await servers.replace(index)
        finally:
            ended.set()
            for caller in callers:
                caller.join()
        assert faults == []
