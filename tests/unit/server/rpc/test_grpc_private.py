from __future__ import annotations

import asyncio
import logging
from typing import Any

import grpc
import pytest
from grpc._cython import cygrpc
from http2 import EMPTY_MESSAGE, Request, exchange, opening

from xuanzang.server.rpc import entry, grpc_private
from xuanzang.translation.v1 import translation_pb2 as pb

TRANSLATE = b"/xuanzang.translation.v1.TranslationService/TranslateText"
UNIMPLEMENTED = b"\x0bgrpc-status\x0212"


@pytest.mark.parametrize("path", [b"/\xff", b"\xc3\x28", b"", b"/", b"//", b"/\xed\xa0\x80/x", b"/s/" + b"a" * 5000])
async def test_an_odd_path_is_unimplemented_and_harms_no_other_caller(served: Any, path: bytes) -> None:
    held = served.engine.hold("running")
    running = asyncio.ensure_future(served.translated("running", timeout=10))
    await served.engine.until(served.engine.running, {"running"})
    assert UNIMPLEMENTED in await exchange(served.rpc.port, opening() + Request(path=path).frames())
    # In progress, on an open connection, and on a new one.
    assert await served.translated("open", timeout=10) == "OPEN"
    assert b"grpc-status\x010" in await exchange(served.rpc.port, opening() + Request().frames())
    held.set()
    assert await running == "RUNNING"


async def test_an_rpc_without_a_message_is_an_invalid_argument(serve: Any) -> None:
    async with serve() as served:
        answer = await exchange(served.rpc.port, opening() + Request(path=TRANSLATE, body=None).frames())
    assert b"grpc-status\x013" in answer


@pytest.mark.parametrize("body", [b"", EMPTY_MESSAGE[:3], b"\0\0\0\0\x10abc"])
async def test_a_message_that_does_not_come_is_not_awaited_for_ever(serve: Any, body: bytes) -> None:
    async with serve(stream_idle_seconds=0.2) as served:
        request = Request(path=TRANSLATE, body=body, is_ended=False)
        assert b"grpc-status\x0210" in await exchange(served.rpc.port, opening() + request.frames())


async def test_an_address_has_a_limit_of_rpcs_that_wait_for_their_messages(serve: Any) -> None:
    async with serve(max_address_rpcs=8) as served:
        begin = served.channel.stream_unary(TRANSLATE.decode())
        half_open = [begin() for _ in range(30)]
        ended = asyncio.as_completed([asyncio.ensure_future(each.code()) for each in half_open])
        assert {await next(ended) for _ in range(22)} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert await served.translated("whole", timeout=10) == "WHOLE"
        assert sum(each.done() for each in half_open) <= 23
        for each in half_open:
            each.cancel()
        await served.rpc.join()


async def test_an_idle_stream_is_ended_once_nothing_is_owed_to_it(serve: Any) -> None:
    async with serve(stream_idle_seconds=0.2) as served:
        held = served.engine.hold("a")
        call = served.stub.StreamTranslateText()
        await call.write(pb.StreamTranslateTextRequest(id="1", content="a"))
        other = served.stub.StreamTranslateText()
        # The other one is idle for as long, and is owed nothing.
        assert await other.code() == grpc.StatusCode.ABORTED
        assert "no message for 0.2 seconds" in await other.details()
        assert not call.done()
        held.set()
        assert (await call.read()).id == "1"
        assert await call.code() == grpc.StatusCode.ABORTED
        await served.rpc.join()


async def test_the_end_of_the_loop_is_told(
    serve: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve() as served:
        held = served.engine.hold("running")
        running = asyncio.ensure_future(served.translated("running", timeout=10))
        await served.engine.until(served.engine.running, {"running"})
        ended = asyncio.ensure_future(served.rpc.ended())
        listener = served.rpc._server._server

        def broken(path: str, context: object) -> None:
            raise RuntimeError("no more requests")

        monkeypatch.setattr(listener, "_begin", broken)
        last = served.stub.ListModels(pb.ListModelsRequest(), timeout=10)
        await ended
        last.cancel()
        # RPCs in progress go on.
        await served.rpc.close()
        held.set()
        assert await running == "RUNNING"
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == [
        "the serving loop ended"
    ]


async def test_connections_beyond_the_limit_are_closed_at_once(serve: Any) -> None:
    async with serve(max_connections=2) as served:
        await served.translated("the first connection", timeout=10)
        reader, writer = await asyncio.open_connection("127.0.0.1", served.rpc.port)
        writer.write(opening())
        assert await reader.readexactly(9)
        refused = opening() + Request().frames()
        assert await exchange(served.rpc.port, refused) == b""
        writer.transport.abort()
        await reader.read()
        assert await served.translated("first", timeout=10) == "FIRST"


async def test_a_connection_without_rpcs_is_closed(serve: Any) -> None:
    async with serve(connection_idle_seconds=1) as served:
        received = await exchange(served.rpc.port, opening(), until=b"connection idle", seconds=30)
    assert b"connection idle" in received


async def test_an_error_before_an_rpc_is_read_ends_that_rpc_alone(
    serve: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("secret")

    async with serve() as served:
        with monkeypatch.context() as patched:
            patched.setattr(entry, "identify", broken)
            call = served.stub.ListModels(pb.ListModelsRequest(), timeout=10)
            assert await call.code() == grpc.StatusCode.INTERNAL
            assert "secret" not in await call.details()
        assert await served.translated("a", timeout=10) == "A"
    assert "unexpected error" in caplog.text


async def test_another_version_of_grpc_is_refused_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc, "__version__", "1.99.0")
    with pytest.raises(grpc_private.UnsupportedGrpcError, match=r"needs grpcio 1\.85, not 1\.99\.0"):
        grpc_private.Listener(lambda *_: None, ())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("place", "names"),
    [
        (cygrpc, "AioServer get_working_loop execute_batch ExecuteBatchError _ServicerContext"),
        (cygrpc, "_finish_handler_with_stream_responses _finish_handler_with_unary_response"),
        (cygrpc, "_handle_cancellation_from_core _handle_exceptions"),
        (cygrpc, "SendInitialMetadataOperation SendStatusFromServerOperation ReceiveCloseOnServerOperation"),
        (cygrpc.AioServer, "_request_registered_call _request_call _make_request_call_future"),
        (cygrpc.AioServer, "_serving_task_crash_handler _start_shutting_down"),
    ],
)
def test_the_private_names_of_grpc_are_there(place: object, names: str) -> None:
    assert [name for name in names.split() if not hasattr(place, name)] == []
