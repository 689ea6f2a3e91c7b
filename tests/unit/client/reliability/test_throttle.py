from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
from google.protobuf import any_pb2
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.client.conftest import Client, Script, aborting, finished
from tests.unit.client.reliability.conftest import READ, World

from xuanzang import client as sdk
from xuanzang.client._calls.status import fault_of
from xuanzang.client._reliability.plan import CallPlan
from xuanzang.client._reliability.throttle import (
    LONGEST_HOLD,
    MIN_CALLS,
    MULTIPLE,
    WINDOW_SECONDS,
    CallShape,
)
from xuanzang.client._reliability.tries import Fault, FaultKind
from xuanzang.translation.v1 import status_pb2

SHAPE = CallShape(size=100, seconds=2.0)


def new_world(addresses: int = 1, *, throttled: bool = True, seed: int | None = None) -> World:
    """Return a world whose draws are all 1 without a seed, so that nothing is left to chance."""
    return World(addresses, throttled=throttled, draw=1.0, seed=seed)


def refuse_one(world: World, *, delay: float, timeout: float = 2.0) -> bool:
    """Let the server refuse a call; return whether the call has failed with it."""
    plan = world.plan(timeout=timeout)
    [(number, _)] = plan.step().tries
    return plan.failed(number, Fault(kind=FaultKind.OVERLOADED, delay=delay))


Outcome = tuple[float, bool]
OUTCOMES = st.lists(st.tuples(st.floats(0.0, 3.0), st.booleans()), max_size=80)


@given(OUTCOMES)
def test_the_chance_is_the_formula_over_the_window(outcomes: list[Outcome]) -> None:
    world, counted = new_world(), []
    [throttle] = world.throttles
    for gap, accepted in outcomes:
        world.now += gap
        throttle.accepted() if accepted else throttle.held_back(SHAPE)
        counted.append((math.floor(world.now), accepted))
        recent = [each for second, each in counted if second > math.floor(world.now) - WINDOW_SECONDS]
        calls = len(recent)
        expected = max(0.0, (calls - MULTIPLE * sum(recent)) / (calls + 1)) if calls >= MIN_CALLS else 0.0
        assert throttle.wait(SHAPE, expected + 1e-9) is None
        assert expected == 0.0 or throttle.wait(SHAPE, expected - 1e-9) is not None


@given(OUTCOMES, st.floats(0.0, 1.0, exclude_max=True))
def test_a_server_that_accepts_half_of_the_calls_gets_them_all(outcomes: list[Outcome], draw: float) -> None:
    world = new_world()
    [throttle] = world.throttles
    for gap, accepted in outcomes:
        world.now += gap
        throttle.accepted()
        throttle.accepted() if accepted else throttle.held_back(SHAPE)
        assert throttle.wait(SHAPE, draw) is None


@given(st.floats(0.01, 20.0), st.floats(0.0, 0.99))
def test_calls_as_hard_as_a_refused_one_wait_as_the_server_asked(delay: float, share: float) -> None:
    world, held = new_world(), min(delay, LONGEST_HOLD)
    world.throttles[0].refused(SHAPE, delay)
    world.now += held * share
    assert world.shared.waits(SHAPE)[0] == pytest.approx(delay - held * share)
    world.now += held * (1 - share) + 1e-6
    assert world.shared.waits(SHAPE) == {}


@given(st.integers(0, 10_000), st.floats(0.01, 100.0))
def test_a_refusal_says_nothing_of_smaller_calls_or_those_with_more_time(size: int, seconds: float) -> None:
    world = new_world()
    world.throttles[0].refused(CallShape(size=1000, seconds=2.0), 1.0)
    is_held = bool(world.shared.waits(CallShape(size=size, seconds=seconds)))
    assert is_held == (size >= 500 and seconds <= 2.0 * 1.1)


def test_a_refusal_of_a_harder_call_does_not_hold_back_easier_ones_for_longer() -> None:
    world = new_world()
    world.throttles[0].refused(CallShape(size=100, seconds=10.0), 0.5)
    world.throttles[0].refused(CallShape(size=100, seconds=2.0), 4.0)
    world.now += 0.6
    assert world.shared.waits(CallShape(size=100, seconds=10.0)) == {}


@settings(max_examples=5)
@given(st.integers(0, 2**32 - 1))
def test_calls_are_sent_again_soon_after_an_overload(seed: int) -> None:
    world = new_world(seed=seed)
    for _ in range(1000):
        world.now += 0.01
        world.throttles[0].refused(SHAPE, 0.02)
    world.now += WINDOW_SECONDS + 1
    for _ in range(100):
        world.now += 0.1
        assert world.shared.waits(SHAPE) == {}
        world.throttles[0].accepted()


def test_a_call_that_cannot_wait_fails_without_being_sent() -> None:
    world = new_world()
    assert refuse_one(world, delay=3.0)
    with pytest.raises(sdk.OverloadedError, match="not sent") as caught:
        world.plan(timeout=2.0).step()
    error = caught.value
    assert (error.code, error.retryable) == (sdk.StatusCode.RESOURCE_EXHAUSTED, True)
    assert error.retry_after == pytest.approx(3.0)
    assert world.plan(timeout=5.0).step().tries


def test_a_call_that_can_wait_is_sent_when_the_server_asked() -> None:
    world = new_world()
    assert not refuse_one(world, delay=1.0, timeout=60.0)
    plan = world.plan(timeout=60.0)
    step = plan.step()
    assert (step.tries, step.wait is not None and step.wait >= 1.0) == ([], True)
    world.now += step.wait or 0.0
    assert len(plan.step().tries) == 1


@dataclass(slots=True)
class Crowd:
    """Results of calls that came faster than the server could answer them."""

    tries: int = 0
    failed: int = 0
    answered_at: list[float] = field(default_factory=list)


def crowd(world: World, *, calls: int, per_second: float, capacity: float, timeout: float) -> Crowd:
    """Let calls come to a server that answers in turn, and refuses any that would wait longer than a second."""
    found, free_at, order = Crowd(), world.now, itertools.count()
    # Time, order among equals, plan of the call if it has begun, number of its try if that is answered then.
    events: list[tuple[float, int, CallPlan | None, int | None]] = []
    for number in range(calls):
        heapq.heappush(events, (world.now + number / per_second, next(order), None, None))
    while events:
        world.now, _, plan, answered = heapq.heappop(events)
        plan = plan or world.plan(timeout=timeout)
        if answered is not None:
            plan.succeeded(answered)
            found.answered_at.append(world.now)
            continue
        try:
            step = plan.step()
        except sdk.OverloadedError:
            found.failed += 1
            continue
        next_at = world.now + (step.wait or 0.0)
        for number, _ in step.tries:
            found.tries += 1
            if free_at <= world.now + 1.0:
                free_at = next_at = max(free_at, world.now) + 1 / capacity
                answered = number
            elif plan.failed(number, Fault(kind=FaultKind.OVERLOADED, delay=free_at - world.now - 1.0)):
                found.failed += 1
                break
        else:
            heapq.heappush(events, (next_at, next(order), plan, answered))
    return found


@settings(max_examples=10)
@given(st.integers(0, 2**32 - 1))
def test_an_overload_that_ends_in_time_is_waited_out(seed: int) -> None:
    world = new_world(seed=seed)
    began = world.now
    # The server needs eight seconds for them all.
    found = crowd(world, calls=400, per_second=100, capacity=50, timeout=60.0)
    assert (found.failed, len(found.answered_at)) == (0, 400)
    assert max(found.answered_at) <= began + 1.5 * 8 + 2
    assert found.tries <= 3 * 400


@settings(max_examples=2)
@given(st.integers(0, 2**32 - 1))
def test_calls_that_wait_out_an_overload_that_stays_are_not_sent_all_the_time(seed: int) -> None:
    found = crowd(new_world(seed=seed), calls=2000, per_second=200, capacity=20, timeout=5.0)
    assert found.failed + len(found.answered_at) == 2000
    assert len(found.answered_at) >= 0.8 * 20 * 10
    assert found.tries <= 3 * len(found.answered_at) + 100


@pytest.mark.parametrize("kind", [kind for kind in FaultKind if kind is not FaultKind.OVERLOADED])
def test_other_failures_and_quotas_hold_nothing_back(kind: FaultKind) -> None:
    world = new_world(seed=1)
    for _ in range(50):
        plan = world.plan(timeout=2.0)
        [(number, _)] = plan.step().tries
        plan.failed(number, Fault(kind=kind, delay=3.0 if kind is FaultKind.LIMITED else 0.0))
        plan.close()
    assert world.shared.waits(SHAPE) == {}


def test_a_client_without_throttle_sends_every_call() -> None:
    world = new_world(throttled=False)
    assert all(refuse_one(world, delay=3.0) for _ in range(50))


def test_another_address_gets_the_calls_that_an_overloaded_one_refuses() -> None:
    world = new_world(addresses=2)
    refuse_one(world, delay=3.0)
    assert [
        address for plan in (world.plan(timeout=2.0), world.plan(timeout=2.0)) for _, address in plan.step().tries
    ] == [1, 1]


def test_a_hedge_is_not_sent_to_an_overloaded_address_and_the_call_goes_on() -> None:
    world = new_world(addresses=2)
    world.knows(0.1, READ)
    plan = world.plan(timeout=60.0)
    assert [address for _, address in plan.step().tries] == [0]
    world.throttles[1].refused(CallShape(size=100, seconds=60.0), 3.0)
    world.now += 1.0
    assert plan.step().tries == []
    assert not plan.failed(0, Fault(kind=FaultKind.UNREACHED))


def refuse(*details: Any) -> Callable[[Any, Any], Any]:
    """Return a method that refuses every call for half a minute."""
    retry = status_pb2.RetryInfo()
    retry.retry_delay.FromSeconds(30)
    packed = [
        any_pb2.Any(type_url=f"x/google.rpc.{each.DESCRIPTOR.name}", value=each.SerializeToString())
        for each in (retry, *details)
    ]
    status = status_pb2.Status(code=8, message="busy", details=packed).SerializeToString()
    respond: Callable[[Any, Any], Any] = aborting(
        grpc.StatusCode.RESOURCE_EXHAUSTED, "busy", ("grpc-status-details-bin", status)
    )
    return respond


CALLS: dict[str, Callable[[Any], Any]] = {
    "unary": lambda client: client.translate_one("a"),
    "progressive": lambda client: client.translate_progressively("a"),
    "stream": lambda client: client.translate_stream(["a"]),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize(
    ("kind", "throttle"),
    [(sdk.TranslationClient, True), (sdk.TranslationClient, False), (sdk.AsyncTranslationClient, True)],
)
async def test_a_refused_call_keeps_the_next_from_the_server(
    script: Script, kind: Any, call: Callable[[Any], Any], throttle: bool
) -> None:
    script.on_translate = script.on_progressive = refuse()
    # A refusal that comes while texts are written is lost in grpc.aio, and the call is made again.
    script.on_stream = lambda requests, context: refuse()(list(requests), context)
    client = kind(script.address, timeout=10, throttle=throttle)
    for expected in ("busy", "not sent" if throttle else "busy"):
        with pytest.raises(sdk.OverloadedError, match=expected) as caught:
            await finished(call(client))
        assert caught.value.retry_after is not None
    await finished(client.close())
    assert len(script.metadata) == (1 if throttle else 2)


def test_the_quota_of_a_key_is_told_from_overload(client: Client, script: Script) -> None:
    quota = status_pb2.QuotaFailure(violations=[status_pb2.QuotaFailure.Violation(subject="api key")])
    for details, kind in (((), FaultKind.OVERLOADED), ((quota,), FaultKind.LIMITED)):
        script.on_translate = refuse(*details)
        with pytest.raises(sdk.OverloadedError) as caught:
            client.translate_one("a", timeout=5)
        assert isinstance(caught.value.__cause__, grpc.RpcError)
        assert fault_of(caught.value.__cause__) == Fault(kind=kind, delay=30.0)


def fault_of_reset(code: grpc.StatusCode, number: int) -> Fault:
    """Return the fault of a stream that was reset with an error code of HTTP/2."""
    message = f"Stream removed (RST_STREAM (Received RST_STREAM with error code {number}))"
    return fault_of(grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), message))


def test_a_reset_stream_says_whether_the_server_is_crowded_or_lost() -> None:
    fault = fault_of_reset(grpc.StatusCode.UNAVAILABLE, 7)
    assert (fault.kind, fault.blames_the_address, fault.delay > 0) == (FaultKind.OVERLOADED, False, True)
    assert fault_of_reset(grpc.StatusCode.INTERNAL, 2).kind is FaultKind.BROKEN
    assert fault_of_reset(grpc.StatusCode.INTERNAL, 5).kind is FaultKind.FINAL
