from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, cast

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xuanzang.server.engine.errors import DrainingError, OverloadedError
from xuanzang.server.engine.types import CallerId
from xuanzang.server.rpc import admission
from xuanzang.server.rpc.admission import Occupancy, Place, RpcGate
from xuanzang.server.rpc.limits import RpcLimits
from xuanzang.translation.v1 import status_pb2
from xuanzang.translation.v1 import translation_pb2 as pb

NO_CONTEXT = cast("Any", None)
"""Stands for the context of RPCs that are refused, which the gate does not read."""


async def test_refusals_of_a_closed_gate_are_counted_and_wait_until_they_are_released() -> None:
    gate = RpcGate(RpcLimits(max_concurrent_rpcs=1))
    gate.open()
    gate.close()
    with pytest.raises(DrainingError):
        await gate.enter(NO_CONTEXT, is_stream=False)
    assert gate.hold() == 1
    callers = [asyncio.create_task(gate.enter(NO_CONTEXT, is_stream=False)) for _ in range(3)]
    await asyncio.sleep(0)
    assert gate.hold() == 4
    assert not any(caller.done() for caller in callers)
    gate.release()
    outcomes = await asyncio.gather(*callers, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [DrainingError] * 3


LIMITS = RpcLimits(
    max_concurrent_rpcs=40,
    reserved_rpcs=4,
    max_address_rpcs=12,
    max_caller_rpcs=8,
    max_address_streams=6,
    max_caller_streams=3,
)


def place(address: str = "a", caller: str = "c", *, is_stream: bool = False) -> Place:
    return Place(address=address, caller=CallerId(address, caller), is_stream=is_stream)


def filled(occupancy: Occupancy, wanted: Place) -> tuple[int, str]:
    """Take places until one is refused; return their number and the refusal."""
    for number in range(1000):
        try:
            occupancy.take(wanted)
        except OverloadedError as error:
            return number, str(error)
    raise AssertionError("no limit")


def test_a_caller_has_a_limit_of_rpcs_and_of_streams_at_each_address() -> None:
    occupancy = Occupancy(LIMITS)
    assert filled(occupancy, place(is_stream=True)) == (3, "the limit of 3 streams of one caller is reached")
    assert filled(occupancy, place()) == (5, "the limit of 8 RPCs of one caller is reached")
    assert filled(occupancy, place(address="own"))[0] == LIMITS.max_caller_rpcs


def test_an_address_has_limits_under_however_many_names() -> None:
    occupancy = Occupancy(LIMITS)
    for name in ("x", "y"):
        assert filled(occupancy, place(caller=name, is_stream=True))[0] == 3
    assert filled(occupancy, place(caller="z", is_stream=True)) == (
        0,
        "the limit of 6 streams of one network address is reached",
    )
    assert filled(occupancy, place(caller="z")) == (6, "the limit of 12 RPCs of one network address is reached")


def test_the_reserve_is_for_addresses_without_rpcs() -> None:
    occupancy = Occupancy(LIMITS)
    taken = sum(filled(occupancy, place(address=str(number), caller=str(number)))[0] for number in range(9))
    assert taken == LIMITS.max_concurrent_rpcs
    with pytest.raises(OverloadedError, match="40 concurrent RPCs is reached"):
        occupancy.take(place(address="new"))
    occupancy = Occupancy(LIMITS)
    for number in range(5):
        filled(occupancy, place(address=str(number)))
    with pytest.raises(OverloadedError, match="36 concurrent RPCs outside the reserve"):
        occupancy.take(place(address="4"))
    occupancy.take(place(address="new"))


def test_an_address_with_few_rpcs_is_as_far_from_the_limit_as_the_crowd_of_another_is_near() -> None:
    occupancy = Occupancy(LIMITS.model_copy(update={"max_address_rpcs": 36}))
    for number in range(30):
        occupancy.take(place("crowd", str(number)))
    assert occupancy.share(place("victim")) <= 0.12
    occupancy.take(place("victim"))
    assert occupancy.share(place("victim", "other")) <= 0.2
    assert occupancy.share(place("crowd")) >= 0.8
    # Many addresses with an RPC each make places scarce for all.
    occupancy = Occupancy(LIMITS)
    for number in range(30):
        occupancy.take(place(str(number)))
    assert occupancy.share(place("new")) >= 0.8


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), st.booleans())))
def test_places_given_back_are_free_again(wanted: list[tuple[str, str, bool]]) -> None:
    occupancy = Occupancy(LIMITS)
    taken = []
    for address, caller, is_stream in wanted:
        with suppress(OverloadedError):
            occupancy.take(each := place(address, caller, is_stream=is_stream))
            taken.append(each)
    for each in taken:
        occupancy.give_back(each)
    assert occupancy.rpcs == 0
    counts = [value for value in vars(occupancy).values() if isinstance(value, dict)]
    assert counts == [{}] * 5


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
        async with asyncio.timeout(30):
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
async def test_of_many_names_refused_for_the_queue_few_are_read(firm: Any, reason: str, names: int, read: int) -> None:
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
