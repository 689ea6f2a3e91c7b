"""gRPC at a gateway: keys, limits, health, descriptions, and callers who send nothing or nonsense."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from gateways import RunningGateway, gateway_process, running_gateway
from google.protobuf import descriptor_pool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from http2 import Request, exchange, opening
from stand_in_server import KEY, StandIn, standing_in
from typing_extensions import override

from xuanzang.inference.v2 import inference_pb2 as v2
from xuanzang.inference.v2 import inference_pb2_grpc
from xuanzang.serving.fair_start import FairStart

INFERENCE = "inference.GRPCInferenceService"


def inference(text: str = "a") -> v2.ModelInferRequest:
    tensor = v2.ModelInferRequest.InferInputTensor(name="text", datatype="BYTES", shape=[1])
    tensor.contents.bytes_contents.append(text.encode())
    return v2.ModelInferRequest(model_name="tiny", id="7", inputs=[tensor])


class Held(StandIn):
    """A server that keeps requests until it may answer."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.released = asyncio.Event(), asyncio.Event()

    @override
    async def TranslateText(self, request: Any, context: Any) -> Any:
        self.begun.set()
        await self.released.wait()
        return await super().TranslateText(request, context)


@asynccontextmanager
async def serving(
    server: StandIn | None = None, **settings: Any
) -> AsyncIterator[tuple[RunningGateway, grpc.aio.Channel]]:
    """Run a gateway before a server that stands in; yield it with a channel to it."""
    async with (
        standing_in(server or StandIn()) as address,
        running_gateway(address, grpc_address="127.0.0.1:0", **settings) as gateway,
        grpc.aio.insecure_channel(gateway.grpc_address) as channel,
    ):
        yield gateway, channel


def stub_of(channel: grpc.aio.Channel) -> Any:
    return inference_pb2_grpc.GRPCInferenceServiceStub(channel)


def described(address: str) -> dict[str, list[str]]:
    """Return the methods of each service that is listed, by what reflection says of it and of all that it needs."""
    with grpc.insecure_channel(address) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        pool = descriptor_pool.DescriptorPool(database)
        return {name: [each.name for each in pool.FindServiceByName(name).methods] for name in database.get_services()}


@pytest.fixture
async def channel(gateway: RunningGateway) -> AsyncIterator[grpc.aio.Channel]:
    async with grpc.aio.insecure_channel(gateway.grpc_address) as opened:
        yield opened


async def test_every_listed_service_is_described_with_all_it_needs(gateway: RunningGateway) -> None:
    found = await asyncio.to_thread(described, gateway.grpc_address)
    assert {INFERENCE, "google.cloud.translation.v3.TranslationService", "grpc.health.v1.Health"} < found.keys()
    assert "TranslateText" in found["google.cloud.translation.v3.TranslationService"]


async def test_each_service_is_healthy_while_the_server_answers() -> None:
    async with standing_in(StandIn()) as address:
        running = running_gateway(address, grpc_address="127.0.0.1:0")
        gateway = await running.__aenter__()
        channel = grpc.aio.insecure_channel(gateway.grpc_address)
        stub = health_pb2_grpc.HealthStub(channel)
        for name in ("", INFERENCE, "google.cloud.translation.v3.TranslationService"):
            assert (await stub.Check(health_pb2.HealthCheckRequest(service=name))).status == 1
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Check(health_pb2.HealthCheckRequest(service="other"))
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    assert (await stub.Check(health_pb2.HealthCheckRequest())).status == 2
    await channel.close()
    await running.__aexit__(None, None, None)


async def test_a_key_goes_to_the_server() -> None:
    server = StandIn(needs_key=True)
    async with serving(server, anonymous=False) as (_, channel):
        stub = stub_of(channel)
        for metadata in ([], [("x-api-key", "xz_wrong")]):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stub.ModelInfer(inference(), metadata=metadata)
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        for name, value in (("x-api-key", KEY), ("x-goog-api-key", KEY), ("authorization", f"Bearer {KEY}")):
            answer = await stub.ModelInfer(inference(), metadata=[(name, value)])
            assert answer.outputs[0].contents.bytes_contents == [b"A"]
            assert server.keys[-1] == KEY
        assert (await stub.ServerLive(v2.ServerLiveRequest())).live


async def test_addresses_have_turns_and_failed_calls_count_against_them(monkeypatch: pytest.MonkeyPatch) -> None:
    turns, refused, turn = list[tuple[str, bool]](), list[str](), FairStart.turn

    async def noted(start: FairStart, address: str, *, is_probe: bool = False) -> None:
        turns.append((address, is_probe))
        await turn(start, address, is_probe=is_probe)

    monkeypatch.setattr(FairStart, "turn", noted)
    monkeypatch.setattr(FairStart, "refused", lambda _, address: refused.append(address))
    async with serving() as (_, channel):
        await stub_of(channel).ModelInfer(inference())
        await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        assert not refused
        with pytest.raises(grpc.aio.AioRpcError):
            await stub_of(channel).ModelInfer(v2.ModelInferRequest(model_name="tiny"))
    assert turns == [("127.0.0.1", False), ("127.0.0.1", True), ("127.0.0.1", False)]
    assert refused == ["127.0.0.1"]


async def test_a_callers_share_of_calls_is_limited() -> None:
    server = Held()
    async with serving(server, max_concurrent_requests=8) as (_, channel):
        stub = stub_of(channel)
        calls = [stub.ModelInfer(inference()) for _ in range(7)]
        ended = asyncio.as_completed([asyncio.ensure_future(each.code()) for each in calls])
        assert {await next(ended) for _ in range(3)} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        server.released.set()
        codes = [await each.code() for each in calls]
        assert codes.count(grpc.StatusCode.OK) == 4


async def test_callers_who_send_no_message_are_told_off_and_hold_up_nobody() -> None:
    async with serving(max_concurrent_requests=8, receive_timeout_seconds=2) as (_, channel):
        silent: Any = channel.stream_unary(f"/{INFERENCE}/ModelInfer")
        calls = [silent() for _ in range(4)]
        assert [await each.code() for each in calls] == [grpc.StatusCode.CANCELLED] * 4
        stub = stub_of(channel)
        # They hear of it a moment before their places are free.
        async with asyncio.timeout(30):
            while await stub.ModelInfer(inference()).code() is grpc.StatusCode.RESOURCE_EXHAUSTED:
                pass
        assert (await stub.ModelInfer(inference())).id == "7"


async def test_nonsense_is_an_invalid_argument_and_an_unknown_method_unimplemented(channel: grpc.aio.Channel) -> None:
    for path, code in (
        (f"/{INFERENCE}/ModelInfer", grpc.StatusCode.INVALID_ARGUMENT),
        ("/no.such.Service/Call", grpc.StatusCode.UNIMPLEMENTED),
    ):
        send: Any = channel.unary_unary(path)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await send(b"\xff\xff")
        assert caught.value.code() is code


async def test_a_path_that_is_no_text_ends_nothing(gateway: RunningGateway, channel: grpc.aio.Channel) -> None:
    for path in (b"/\xff\xfe", b"\xff", b"", f"/{INFERENCE}/ModelInfer\xff".encode("latin1"), b"/" * 5000):
        for _ in range(3):
            await exchange(gateway.grpc_port or 0, opening() + Request(path=path).frames(), seconds=2)
        assert (await stub_of(channel).ModelInfer(inference())).id == "7"


async def test_a_late_call_ends_by_its_deadline() -> None:
    async with serving(Held()) as (_, channel):
        stub = stub_of(channel)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.ModelInfer(inference(), timeout=0.3)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


async def test_a_drain_finishes_the_calls_in_progress() -> None:
    server = Held()
    async with (
        standing_in(server) as address,
        gateway_process("--grpc-address=127.0.0.1:0", f"--server={address}") as (process, gateway),
        grpc.aio.insecure_channel(gateway.grpc_address) as channel,
    ):
        call = stub_of(channel).ModelInfer(inference())
        await server.begun.wait()
        process.send_signal(signal.SIGTERM)
        server.released.set()
        assert await call.code() is grpc.StatusCode.OK
        assert await process.wait() == 0


@pytest.mark.parametrize("is_draining", [False, True])
async def test_sigquit_ends_calls_in_progress_and_is_no_error(is_draining: bool) -> None:
    server = Held()
    async with (
        standing_in(server) as address,
        gateway_process("--grpc-address=127.0.0.1:0", f"--server={address}") as (process, gateway),
        grpc.aio.insecure_channel(gateway.grpc_address) as channel,
    ):
        call = stub_of(channel).ModelInfer(inference())
        await server.begun.wait()
        if is_draining:
            process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGQUIT)
        assert await call.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
        assert process.stderr is not None
        # gRPC's own lines are no JSON.
        lines = [json.loads(line) for line in (await process.stderr.read()).splitlines() if line.startswith(b"{")]
        assert await process.wait() == 0
    assert lines[-1]["event"] == "stopped"
    assert {line["level"] for line in lines} == {"info"}
