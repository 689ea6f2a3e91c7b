from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from xuanzang.server.engine.errors import OverloadedError
from xuanzang.server.rpc import admission
from xuanzang.translation.v1 import status_pb2
from xuanzang.translation.v1 import translation_pb2 as pb

RPC = {
    "grpc_type": "unary",
    "grpc_service": "xuanzang.translation.v1.TranslationService",
    "grpc_method": "TranslateText",
}


def _call(served: Any, text: str, timeout: float | None) -> Any:
    return served.stub.TranslateText(pb.TranslateTextRequest(contents=[text]), timeout=timeout)


async def _text(call: Any) -> str:
    text: str = (await call).translations[0].hypotheses[0].text
    return text


@pytest.fixture
async def firm(serve: Any, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    """A server that remembers each refusal for long."""
    monkeypatch.setattr(admission, "_REFUSING_SECONDS", 1000.0)
    async with serve() as served:
        yield served


async def _refused(call: Any) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    return caught.value


async def test_an_rpc_without_enough_time_is_refused_before_it_is_read(served: Any) -> None:
    served.engine.needed_seconds = 1000.0
    error = await _refused(_call(served, "a", 60))
    assert await _text(_call(served, "b", None)) == "B"
    assert await _text(_call(served, "c", 5000)) == "C"
    assert len(served.engine.asked_for("deadline")) == 2
    trailers = dict(error.trailing_metadata() or ())
    status = status_pb2.Status.FromString(trailers["grpc-status-details-bin"])
    retry = status_pb2.RetryInfo.FromString(status.details[0].value)
    assert status.message == error.details() == "too busy"
    assert retry.retry_delay.ToMilliseconds() == int(trailers["grpc-retry-pushback-ms"])
    assert retry.retry_delay.seconds >= 940


async def test_rpcs_that_are_not_read_are_counted(served: Any) -> None:
    served.engine.needed_seconds = 1000.0
    await asyncio.gather(*(_refused(_call(served, "a", 60)) for _ in range(5)))
    async with asyncio.timeout(30):
        while not served.value("grpc_server_handled_total", **RPC, grpc_code="RESOURCE_EXHAUSTED"):
            await served.stub.ListModels(pb.ListModelsRequest())
    assert served.value("grpc_server_handled_total", **RPC, grpc_code="RESOURCE_EXHAUSTED") == 5
    assert served.value("grpc_server_started_total", **RPC) == 5
    assert served.value("grpc_server_msg_received_total", **RPC) == 0


async def test_the_last_places_are_for_rpcs_with_much_time(serve: Any) -> None:
    async with serve(max_connection_rpcs=48) as served:
        served.engine.needed_seconds = 20.0
        held = served.engine.hold("held")
        running = [asyncio.ensure_future(_text(_call(served, "held", 60))) for _ in range(30)]
        await served.engine.until(served.engine.running, {"held"})
        while len(served.engine.running) < len(running):
            await served.stub.ListModels(pb.ListModelsRequest())
        # None of them waits in the client, and so much time as was enough before is not enough now.
        errors = await asyncio.gather(*(_refused(_call(served, "a", 40)) for _ in range(8)))
        assert all("of the RPCs that may be" in str(error.details()) for error in errors)
        assert all("grpc-retry-pushback-ms" in dict(error.trailing_metadata() or ()) for error in errors)
        assert await _text(_call(served, "patient", 4000)) == "PATIENT"
        held.set()
        assert await asyncio.gather(*running) == ["HELD"] * 30


async def test_after_a_refusal_rpcs_are_read_as_others_end(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "_REFUSING_SECONDS", 0.0)
    monkeypatch.setattr(admission, "_SCARCE_SECONDS", 1000.0)
    monkeypatch.setattr(admission, "_HELD_SHARE", 0.0)
    async with serve() as served:
        served.engine.until_begun = 60.0
        served.engine.raised["large"] = OverloadedError("too large", retry_after_seconds=1.0)
        await _refused(_call(served, "large", 60))
        assert (await _refused(_call(served, "small", 60))).details() == "too large"
        assert len(served.engine.asked_for("deadline")) == 1
        assert await _text(_call(served, "answered", None)) == "ANSWERED"
        assert await _text(_call(served, "small", 60)) == "SMALL"
        # What would be begun at once is read without anybody's answer.
        served.engine.until_begun = 0.0
        await _refused(_call(served, "large", 60))
        assert await _text(_call(served, "small", 60)) == "SMALL"


@pytest.mark.parametrize(
    ("until_begun", "refusal"),
    [
        (None, OverloadedError("too large", retry_after_seconds=1000.0)),
        (60.0, OverloadedError("explanations", retry_after_seconds=1000.0, reason="limit")),
    ],
    ids=["for its own size", "of an explanation"],
)
async def test_some_refusals_say_nothing_of_the_next_rpc(firm: Any, until_begun: Any, refusal: OverloadedError) -> None:
    firm.engine.until_begun = until_begun
    firm.engine.raised["refused"] = refusal
    await _refused(_call(firm, "refused", 60))
    assert await _text(_call(firm, "read", 60)) == "READ"


async def test_after_a_refusal_none_is_read_before_work_is_done(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "_REFUSING_SECONDS", 0.0)
    async with serve() as served:
        served.engine.until_begun = 50_000.0
        served.engine.raised["large"] = OverloadedError("too large", retry_after_seconds=10_000.0)
        await _refused(_call(served, "large", 60))
        assert await _text(_call(served, "patient", 600)) == "PATIENT"
        # There would be a permit now, but what comes before takes as long as ever.
        for timeout in (60, 5, 60):
            assert (await _refused(_call(served, "small", timeout))).details() == "too large"
        assert len(served.engine.asked_for("deadline")) == 2


async def test_a_refusal_for_less_time_does_not_let_others_be_read(firm: Any) -> None:
    firm.engine.raised["large"] = OverloadedError("too large", retry_after_seconds=1.0)
    firm.engine.needed_seconds = 20.0
    await _refused(_call(firm, "large", 60))
    assert (await _refused(_call(firm, "hasty", 5))).details() == "too busy"
    assert (await _refused(_call(firm, "small", 60))).details() == "too large"
    assert len(firm.engine.asked_for("deadline")) == 1


async def test_an_overlong_name_of_a_caller_is_bad_input_in_overload_too(served: Any) -> None:
    served.engine.needed_seconds = 1000.0
    call = served.stub.TranslateText(pb.TranslateTextRequest(), timeout=60, metadata=(("x-client-id", "x" * 200),))
    assert await call.code() == grpc.StatusCode.INVALID_ARGUMENT


async def test_after_a_refusal_rpcs_without_deadline_stay_unread_too(firm: Any) -> None:
    firm.engine.raised["large"] = OverloadedError("the queue is full", retry_after_seconds=1.0)
    await _refused(_call(firm, "large", None))
    assert (await _refused(_call(firm, "small", None))).details() == "the queue is full"
    assert len(firm.engine.asked_for("deadline")) == 1


@pytest.mark.parametrize(("reason", "names", "read"), [("queue", 80, 17), ("queue", 12, 12), ("deadline", 80, 80)])
async def test_of_many_names_that_a_full_queue_refuses_few_are_read(
    firm: Any, reason: str, names: int, read: int
) -> None:
    firm.engine.raised["large"] = OverloadedError("refused", retry_after_seconds=1.0, reason=reason)
    for number in range(names):
        request, name = pb.TranslateTextRequest(contents=["large"]), (("x-client-id", f"name {number}"),)
        assert (await _refused(firm.stub.TranslateText(request, metadata=name))).details() == "refused"
    assert len(firm.engine.asked_for("deadline")) == read


async def test_an_rpc_with_less_time_is_told_to_wait_for_longer(firm: Any) -> None:
    firm.engine.needed_seconds = 1000.0
    told = [
        int(dict(error.trailing_metadata() or ())["grpc-retry-pushback-ms"]) / 1000
        for error in [await _refused(_call(firm, "a", timeout)) for timeout in (500, 500, 60, 60)]
    ]
    assert told == pytest.approx([500, 500, 940, 940], abs=30)
