from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, cast

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xuanzang.server.engine.errors import DrainingError, OverloadedError
from xuanzang.server.engine.types import CallerId
from xuanzang.server.rpc.admission import Occupancy, Place, RpcGate
from xuanzang.server.rpc.limits import RpcLimits

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


async def test_rpcs_beyond_the_limit_are_refused_with_a_retry_delay(serve: Any) -> None:
    async with serve(max_concurrent_rpcs=1) as served:
        held = served.engine.hold("a")
        first = asyncio.ensure_future(served.translated("a"))
        await served.engine.until(served.engine.running, {"a"})
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await served.translated("b")
        held.set()
        assert (await first) == "A"
        await served.rpc.join()
        assert await served.translated("b") == "B"
    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert dict(caught.value.trailing_metadata() or ())["grpc-retry-pushback-ms"] == "1000"


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


def test_many_addresses_with_an_rpc_each_make_places_scarce_for_all() -> None:
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
