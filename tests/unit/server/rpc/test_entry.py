from __future__ import annotations

import logging
from typing import Any

import grpc
import pytest

from xuanzang.server.engine.errors import FieldViolation, InvalidInputError, OverloadedError
from xuanzang.server.engine.types import CallerId
from xuanzang.translation.v1 import translation_pb2 as pb

SERVICE = "xuanzang.translation.v1.TranslationService"
UNARY = {"grpc_type": "unary", "grpc_service": SERVICE, "grpc_method": "TranslateText"}


@pytest.mark.parametrize(
    ("kind", "method", "request_", "received", "sent"),
    [
        ("unary", "TranslateText", pb.TranslateTextRequest(contents=["a", "b"]), 1, 1),
        ("bidi_stream", "StreamTranslateText", [pb.StreamTranslateTextRequest(content="a")] * 5, 5, 5),
        ("server_stream", "TranslateTextProgressively", pb.TranslateTextProgressivelyRequest(content="abcd"), 1, 3),
    ],
)
async def test_rpcs_are_counted_from_zero(
    served: Any, kind: str, method: str, request_: Any, received: int, sent: int
) -> None:
    rpc = {"grpc_type": kind, "grpc_service": SERVICE, "grpc_method": method}

    def counted() -> list[float]:
        names = "started_total", "msg_received_total", "msg_sent_total", "handling_seconds_count"
        handled = served.value("grpc_server_handled_total", **rpc, grpc_code="OK")
        return [*(served.value(f"grpc_server_{name}", **rpc) for name in names), handled]

    assert counted() == [0] * 5
    call = getattr(served.stub, method)(request_)
    assert (await call) if kind == "unary" else [each async for each in call]
    await served.rpc.join()
    assert counted() == [1, received, sent, 1, 1]


async def test_rpcs_that_are_cancelled_or_expire_end_their_work_and_are_counted_as_such(served: Any) -> None:
    served.engine.hold("a")
    call = served.stub.TranslateText(pb.TranslateTextRequest(contents=["a"]))
    await served.engine.until(served.engine.running, {"a"})
    call.cancel()
    await served.engine.until(served.engine.cancelled, {"a"})
    await served.rpc.join()
    assert served.value("grpc_server_handled_total", **UNARY, grpc_code="CANCELLED") == 1
    request = pb.TranslateTextRequest(contents=["b"])
    await served.let_expire("b", lambda timeout: served.stub.TranslateText(request, timeout=timeout))
    expired = served.value("grpc_server_handled_total", **UNARY, grpc_code="DEADLINE_EXCEEDED")
    assert expired == served.value("grpc_server_started_total", **UNARY) - 1 >= 1


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


async def test_an_answer_for_nobody_is_no_unexpected_error(serve: Any, caplog: pytest.LogCaptureFixture) -> None:
    async with serve() as served:
        served.engine.raised["a"] = grpc.aio.InternalError("the caller is gone")
        with pytest.raises(grpc.aio.AioRpcError):
            await served.stub.TranslateText(pb.TranslateTextRequest(contents=["a"]))
        await served.rpc.join()
        assert served.value("grpc_server_handled_total", **UNARY, grpc_code="INTERNAL") == 0
    assert "unexpected error" not in caplog.text


@pytest.mark.parametrize("garbage", [b"\xff", b"\x0a\x01\xff"], ids=["no protobuf", "no UTF-8"])
async def test_a_message_that_cannot_be_decoded_is_an_invalid_argument(served: Any, garbage: bytes) -> None:
    for call in (
        served.channel.unary_unary(f"/{SERVICE}/TranslateText")(garbage),
        served.channel.stream_stream(f"/{SERVICE}/StreamTranslateText")(iter([garbage])),
    ):
        assert await call.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert "must be a valid message of" in await call.details()


async def test_an_unknown_method_is_unimplemented(served: Any) -> None:
    call = served.channel.unary_unary(f"/{SERVICE}/Nothing")(b"")
    assert await call.code() == grpc.StatusCode.UNIMPLEMENTED


async def test_success_is_logged_for_debugging_failure_as_info(serve: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        async with serve() as served:
            assert await served.translated("a") == "A"
            served.engine.raised["b"] = InvalidInputError([FieldViolation(field="contents[0]", description="is b")])
            with pytest.raises(grpc.aio.AioRpcError):
                await served.translated("b")
            await served.rpc.join()
    logged: list[Any] = [record for record in caplog.records if record.message == "rpc"]
    assert [(record.code, record.levelname) for record in logged] == [("OK", "DEBUG"), ("INVALID_ARGUMENT", "INFO")]


NAMED = (("x-client-id", "nightly"),)


async def call_every_way(served: Any, metadata: Any = ()) -> None:
    await served.stub.TranslateText(pb.TranslateTextRequest(contents=["a"]), metadata=metadata)
    for request, rpc in (
        (pb.TranslateTextProgressivelyRequest(content="a"), served.stub.TranslateTextProgressively),
        (iter([pb.StreamTranslateTextRequest(content="a")] * 2), served.stub.StreamTranslateText),
    ):
        assert [answer async for answer in rpc(request, metadata=metadata)]
    await served.rpc.join()


ADDRESS = CallerId("ipv4:127.0.0.1")


@pytest.mark.parametrize(("metadata", "name"), [((), ""), ((("x-client-id", ""),), ""), (NAMED, "nightly")])
async def test_a_name_counts_within_the_address_of_its_caller_and_is_never_logged(
    serve: Any, caplog: pytest.LogCaptureFixture, metadata: Any, name: str
) -> None:
    with caplog.at_level(logging.DEBUG):
        async with serve(trusted_proxies="10.0.0.0/8") as served:
            await call_every_way(served, metadata)
    assert served.engine.asked_for("caller") == [ADDRESS._replace(name=name)] * 4
    assert not any("nightly" in str(vars(record)) for record in caplog.records if record.name.startswith("xuanzang"))


async def test_a_trusted_proxy_names_callers_that_have_shares_of_their_own(serve: Any) -> None:
    async with serve(trusted_proxies="10.0.0.0/8,127.0.0.1") as served:
        await call_every_way(served, NAMED)
        await call_every_way(served, (("x-client-id", "other"),))
        await call_every_way(served)
    shares = {caller.share for caller in served.engine.asked_for("caller")}
    assert len(shares) == 3
    assert {caller.name for caller in served.engine.asked_for("caller")} == {""}


async def test_a_name_that_is_too_long_is_refused(serve: Any) -> None:
    async with serve() as served:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call_every_way(served, (("x-client-id", "x" * 129),))
        await call_every_way(served, (("x-client-id", "x" * 128),))
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert caught.value.details() == "x-client-id: must have at most 128 characters, has 129"


async def test_a_call_says_what_its_translated_texts_have_used(served: Any) -> None:
    async def usage_of(call: Any) -> dict[str, str]:
        return {key: value for key, value in await call.trailing_metadata() if key.startswith("x-usage-")}

    used = {"x-usage-characters": "5", "x-usage-sentences": "2"}
    call = served.stub.TranslateTextProgressively(pb.TranslateTextProgressivelyRequest(content="abcde"))
    assert [answer async for answer in call]
    assert await usage_of(call) == used | {"x-usage-sentences": "1"}
    served.engine.raised |= {"refused": InvalidInputError([]), "a": OverloadedError("busy", retry_after_seconds=1.0)}
    texts = [pb.StreamTranslateTextRequest(content=text) for text in ("ab", "refused", "cde")]
    call = served.stub.StreamTranslateText(texts)
    assert len([answer async for answer in call]) == 3
    assert await usage_of(call) == used
    call = served.stub.TranslateText(pb.TranslateTextRequest(contents=["a"]))
    with pytest.raises(grpc.aio.AioRpcError):
        await call
    assert await usage_of(call) == {}
