"""Callers that hold on to what they were given: the others must not be refused for it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import grpc
from http2 import HEALTH, Request, connections, exchange, opening
from hyperframe.frame import RstStreamFrame

from xuanzang.translation.v1 import translation_pb2 as pb
from xuanzang.translation.v1 import translation_pb2_grpc

TRANSLATE = b"/xuanzang.translation.v1.TranslationService/TranslateText"


async def _codes(server: Any, calls: int) -> set[grpc.StatusCode]:
    request = pb.TranslateTextRequest(
        contents=["猫"], settings=pb.TranslationSettings(options=pb.DecodingOptions(max_target_length=3))
    )
    return {await server.stub.TranslateText(request, timeout=30).code() for _ in range(calls)}


async def test_idle_streams_under_many_names_leave_room_for_others(attack: Any) -> None:
    # gRPC itself refuses calls on a connection with this many streams.
    options = (("grpc.use_local_subchannel_pool", 1),)
    async with attack() as server, grpc.aio.insecure_channel(f"127.0.0.1:{server.port}", options) as channel:
        stub: Any = translation_pb2_grpc.TranslationServiceStub(channel)
        streams = [stub.StreamTranslateText(metadata=(("x-client-id", str(number)),)) for number in range(1024)]
        await asyncio.sleep(0)
        assert await _codes(server, 20) == {grpc.StatusCode.OK}
        await server.check()
        for stream in streams:
            stream.cancel()


async def test_idle_connections_leave_room_for_others(attack: Any) -> None:
    async with attack() as server:
        for first in (b"", opening(), opening() + Request(is_ended=False, body=b"").frames()):
            async with connections(server.port, 400, first):
                assert await _codes(server, 20) == {grpc.StatusCode.OK}
                await server.check()


async def test_rapid_resets_cancel_no_call_of_others(attack: Any) -> None:
    async with attack() as server:
        resets = opening()
        for stream in range(1, 4001, 2):
            resets += Request(path=TRANSLATE).frames(stream) + RstStreamFrame(stream, error_code=8).serialize()
        attacks = [asyncio.create_task(exchange(server.port, resets, until=b"never", seconds=1)) for _ in range(3)]
        assert await _codes(server, 40) == {grpc.StatusCode.OK}
        await asyncio.gather(*attacks)
        await server.check()


async def test_a_server_whose_serving_loop_ends_exits_with_1(tiny_bundle_repository: Path) -> None:
    unguarded = (
        "from xuanzang.server.rpc import grpc_private; del grpc_private._Server._request_call;"
        "from xuanzang.server.__main__ import main; raise SystemExit(main())"
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", unguarded, f"--models={tiny_bundle_repository}", "--workers=1"),
        *("--address=127.0.0.1:0", "--metrics-address=127.0.0.1:0"),
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    log = b""
    while b'"serving"' not in log:
        log += (line := await process.stderr.readline())
        assert line
    port = int(log.partition(b'"port": ')[2].partition(b",")[0])
    await exchange(port, opening() + Request(path=b"/\xff").frames(), until=b"never")
    _, rest = await process.communicate()
    assert process.returncode == 1
    assert b"the serving loop ended" in rest
    assert b"gRPC no longer accepts RPCs" in rest


async def test_health_is_answered_while_every_place_is_taken(attack: Any) -> None:
    async with attack("--max-concurrent-rpcs=4") as server:
        streams = [server.stub.StreamTranslateText() for _ in range(8)]
        codes = asyncio.as_completed([stream.code() for stream in streams])
        assert [await next(codes) for _ in range(4)] == [grpc.StatusCode.RESOURCE_EXHAUSTED] * 4
        assert b"grpc-status\x010" in await exchange(server.port, opening() + Request(path=HEALTH).frames())
        for stream in streams:
            stream.cancel()
