from __future__ import annotations

import logging
from typing import Any

import grpc
import pytest

from xuanzang.server.engine.errors import FieldViolation, InvalidInputError
from xuanzang.translation.v1 import translation_pb2 as pb

SERVICE = "xuanzang.translation.v1.TranslationService"
UNARY = {"grpc_type": "unary", "grpc_service": SERVICE, "grpc_method": "TranslateText"}


@pytest.mark.parametrize(
    ("kind", "method", "received", "sent"),
    [
        ("unary", "TranslateText", 1, 1),
        ("bidi_stream", "StreamTranslateText", 5, 5),
        ("server_stream", "TranslateTextProgressively", 1, 3),
    ],
)
async def test_rpcs_and_their_messages_are_counted_from_zero(
    serve: Any, kind: str, method: str, received: int, sent: int
) -> None:
    rpc = {"grpc_type": kind, "grpc_service": SERVICE, "grpc_method": method}
    async with serve() as served:

        def counted() -> list[float]:
            return [
                served.value("grpc_server_started_total", **rpc),
                served.value("grpc_server_msg_received_total", **rpc),
                served.value("grpc_server_msg_sent_total", **rpc),
                served.value("grpc_server_handled_total", **rpc, grpc_code="OK"),
                served.value("grpc_server_handling_seconds_count", **rpc),
            ]

        assert counted() == [0] * 5
        call = getattr(served.stub, method)
        if kind == "unary":
            await call(pb.TranslateTextRequest(contents=["a", "b"]))
        elif kind == "bidi_stream":
            assert [
                each async for each in call(iter([pb.StreamTranslateTextRequest(content=text) for text in "abcde"]))
            ]
        else:
            assert [each async for each in call(pb.TranslateTextProgressivelyRequest(content="abcd"))]
        await served.rpc.join()
        assert counted() == [1, received, sent, 1, 1]


async def test_a_cancelled_rpc_ends_its_work_and_is_counted_as_cancelled(serve: Any) -> None:
    async with serve() as served:
        served.engine.hold("a")
        call = served.stub.TranslateText(pb.TranslateTextRequest(contents=["a"]))
        await served.engine.until(served.engine.running, {"a"})
        call.cancel()
        await served.engine.until(served.engine.cancelled, {"a"})
        await served.rpc.join()
        assert served.value("grpc_server_handled_total", **UNARY, grpc_code="CANCELLED") == 1


async def test_an_rpc_with_an_expired_deadline_is_counted_as_such(serve: Any) -> None:
    async with serve() as served:
        request = pb.TranslateTextRequest(contents=["a"])
        await served.let_expire("a", lambda timeout: served.stub.TranslateText(request, timeout=timeout))
        expired = served.value("grpc_server_handled_total", **UNARY, grpc_code="DEADLINE_EXCEEDED")
        assert expired == served.value("grpc_server_started_total", **UNARY) >= 1


async def test_an_unexpected_error_is_internal_and_only_logged(serve: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        async with serve() as served:
            served.engine.raised["小秘密"] = ZeroDivisionError("why it is")
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await served.stub.TranslateText(pb.TranslateTextRequest(contents=["小秘密"]))
            await served.rpc.join()
            assert served.value("grpc_server_handled_total", **UNARY, grpc_code="INTERNAL") == 1
    assert caught.value.code() == grpc.StatusCode.INTERNAL
    assert "why it is" not in str(caught.value)
    [record] = [record for record in caplog.records if record.message == "rpc"]
    assert (record.method, record.code) == (f"{SERVICE}/TranslateText", "INTERNAL")  # type: ignore[attr-defined]
    assert "ZeroDivisionError: why it is" in caplog.text
    assert "小秘密" not in caplog.text


async def test_an_answer_that_grpc_cannot_write_is_no_unexpected_error(
    serve: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve() as served:
        served.engine.raised["a"] = grpc.aio.InternalError("the caller is gone")
        with pytest.raises(grpc.aio.AioRpcError):
            await served.stub.TranslateText(pb.TranslateTextRequest(contents=["a"]))
        await served.rpc.join()
        assert served.value("grpc_server_handled_total", **UNARY, grpc_code="INTERNAL") == 0
    assert "unexpected error" not in caplog.text


@pytest.mark.parametrize("garbage", [b"\xff", b"\x0a\x01\xff"], ids=["no protobuf", "no UTF-8"])
async def test_a_message_that_cannot_be_decoded_is_an_invalid_argument(serve: Any, garbage: bytes) -> None:
    async with serve() as served:
        for call in (
            served.channel.unary_unary(f"/{SERVICE}/TranslateText")(garbage),
            served.channel.stream_stream(f"/{SERVICE}/StreamTranslateText")(iter([garbage])),
        ):
            assert await call.code() == grpc.StatusCode.INVALID_ARGUMENT
            assert "must be a valid message of" in await call.details()


async def test_an_unknown_method_is_unimplemented(serve: Any) -> None:
    async with serve() as served:
        call = served.channel.unary_unary(f"/{SERVICE}/Nothing")(b"")
        assert await call.code() == grpc.StatusCode.UNIMPLEMENTED


async def test_success_is_logged_at_debug_level_and_failure_at_info_level(
    serve: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        async with serve() as served:
            assert await served.translated("a") == "A"
            served.engine.raised["b"] = InvalidInputError([FieldViolation(field="contents[0]", description="is b")])
            with pytest.raises(grpc.aio.AioRpcError):
                await served.translated("b")
            await served.rpc.join()
    logged: list[Any] = [record for record in caplog.records if record.message == "rpc"]
    assert [(record.code, record.levelname) for record in logged] == [("OK", "DEBUG"), ("INVALID_ARGUMENT", "INFO")]
