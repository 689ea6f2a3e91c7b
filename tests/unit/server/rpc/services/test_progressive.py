from __future__ import annotations

import asyncio
import logging
from typing import Any

import grpc
import pytest

from xuanzang.server.engine.errors import FieldViolation, InvalidInputError, OverloadedError
from xuanzang.translation.v1 import translation_pb2 as pb

RPC = {
    "grpc_type": "server_stream",
    "grpc_service": "xuanzang.translation.v1.TranslationService",
    "grpc_method": "TranslateTextProgressively",
}


def request(content: str, *, beam_size: int = 1, return_scores: bool = False) -> pb.TranslateTextProgressivelyRequest:
    settings = pb.TranslationSettings(options=pb.DecodingOptions(beam_size=beam_size), return_scores=return_scores)
    return pb.TranslateTextProgressivelyRequest(content=content, settings=settings)


async def failure(call: Any) -> Any:
    """Return the error with which a call ends."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        _ = [answer async for answer in call]
    return caught.value


async def test_certain_text_is_sent_at_once_and_the_rest_with_the_translation(serve: Any) -> None:
    async with serve() as served:
        done = served.engine.hold("abcd")
        call = served.stub.TranslateTextProgressively(request("abcd", return_scores=True))
        first = await call.read()
        done.set()
        second, last = await call.read(), await call.read()
        assert await call.read() is grpc.aio.EOF
    assert [part.text_delta for part in (first, second, last)] == ["A", "B", "CD"]
    assert not first.HasField("translation")
    assert not second.HasField("translation")
    assert (last.translation.hypotheses[0].text, last.translation.hypotheses[0].score) == ("ABCD", -1.5)
    assert (last.model, last.model_version) == ("tiny", "1")


async def test_options_and_deadline_reach_the_engine(serve: Any) -> None:
    async with serve() as served:
        call = served.stub.TranslateTextProgressively(request("a", beam_size=2), timeout=100)
        assert [answer async for answer in call]
    assert served.engine.asked_for("options")[0].beam_size == 2
    assert served.engine.asked_for("deadline")[0] is not None


async def test_every_message_is_counted(serve: Any) -> None:
    async with serve() as served:
        assert len([answer async for answer in served.stub.TranslateTextProgressively(request("abcd"))]) == 3
        await served.rpc.join()
        assert served.value("grpc_server_handled_total", **RPC, grpc_code="OK") == 1
        assert served.value("grpc_server_msg_received_total", **RPC) == 1
        assert served.value("grpc_server_msg_sent_total", **RPC) == 3


async def test_faults_have_the_field_names_of_the_message(serve: Any) -> None:
    async with serve() as served:
        served.engine.raised["a"] = InvalidInputError([FieldViolation(field="contents[0]", description="too long")])
        of_the_wire = await failure(served.stub.TranslateTextProgressively(request("a", beam_size=0)))
        of_the_engine = await failure(served.stub.TranslateTextProgressively(request("a")))
    assert of_the_wire.code() == of_the_engine.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert of_the_wire.details() == "settings.options.beam_size: must be 1 to 16, is 0"
    assert of_the_engine.details() == "content: too long"


async def test_an_overloaded_server_answers_with_a_retry_delay(serve: Any) -> None:
    async with serve() as served:
        served.engine.raised["a"] = OverloadedError("full", retry_after_seconds=1.25)
        error = await failure(served.stub.TranslateTextProgressively(request("a")))
    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert dict(error.trailing_metadata() or ())["grpc-retry-pushback-ms"] == "1250"


async def test_cancelling_cancels_the_work(serve: Any) -> None:
    async with serve() as served:
        served.engine.hold("ab")
        call = served.stub.TranslateTextProgressively(request("ab"))
        assert (await call.read()).text_delta == "A"
        await served.engine.until(served.engine.running, {"ab"})
        call.cancel()
        await served.engine.until(served.engine.cancelled, {"ab"})
        await served.rpc.join()
        assert served.value("grpc_server_handled_total", **RPC, grpc_code="CANCELLED") == 1
    with pytest.raises(asyncio.CancelledError):
        await call.read()


async def test_callers_that_hang_up_midway_cause_no_error(serve: Any, caplog: pytest.LogCaptureFixture) -> None:
    async with serve() as served:
        for _ in range(30):
            call = served.stub.TranslateTextProgressively(request("x" * 50_000))
            await call.read()
            call.cancel()
        await served.rpc.join()
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_an_admitted_rpc_is_answered_after_the_server_closes(serve: Any) -> None:
    async with serve() as served:
        held = served.engine.hold("ab")
        call = served.stub.TranslateTextProgressively(request("ab"))
        await served.engine.until(served.engine.running, {"ab"})
        await served.rpc.close()
        held.set()
        answers = [answer async for answer in call]
        await served.rpc.join()
    assert answers[-1].translation.hypotheses[0].text == "AB"
