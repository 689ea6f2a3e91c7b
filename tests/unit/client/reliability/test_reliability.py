from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.client.reliability.conftest import READ, World

from xuanzang.client._reliability.first_contact import Finding, FirstContact
from xuanzang.client._reliability.plan import CallPlan
from xuanzang.client._reliability.tries import (
    FLOOR_SECONDS,
    MAX_SAMPLES,
    MIN_SAMPLES,
    MULTIPLE,
    QUANTILE,
    STREAM,
    Fault,
    FaultKind,
    Latencies,
    Method,
    RetryBudget,
)

UNREACHED = Fault(kind=FaultKind.UNREACHED, message="refused")
BROKEN = Fault(kind=FaultKind.BROKEN, message="broken")
SILENT = Fault(kind=FaultKind.SILENT, message="ping timeout")
FINAL = Fault(kind=FaultKind.FINAL)
LATE = Fault(kind=FaultKind.LATE)

UNHEDGED: Method[object, object] = Method("ExplainTranslation", may_be_hedged=False)
WRITE: Method[object, object] = Method("DeleteGlossary", is_repeatable=False, may_be_hedged=False)


def sent(plan: CallPlan) -> int:
    """Return the number of the only try that a call sends now."""
    [(number, _)] = plan.step().tries
    return number


def addresses_of(plan: CallPlan) -> list[int]:
    return [address for _, address in plan.step().tries]


def failures(world: World, plan: CallPlan, fault: Fault, *, seconds: float = 0.0) -> int:
    """Let every try fail after some seconds, until the call has failed; return the number of tries."""
    count = 0
    while True:
        step = plan.step()
        for number, _ in step.tries:
            count += 1
            world.now += seconds
            if plan.failed(number, fault):
                return count
        if not step.tries:
            assert step.wait is not None
            world.now += step.wait


def learned(latencies: Latencies, *sizes: int, seconds: float = 1.0) -> Latencies:
    for size in sizes:
        for _ in range(MIN_SAMPLES):
            latencies.observe("TranslateText", size, seconds)
    return latencies


def test_a_limit_is_known_after_enough_answers_of_the_same_rpc_and_size() -> None:
    latencies = Latencies()
    for _ in range(MIN_SAMPLES):
        assert latencies.limit("TranslateText", 100) is None
        latencies.observe("TranslateText", 100, 1.0)
    learned(latencies, 10_000, seconds=20.0)
    assert [latencies.limit("TranslateText", size) for size in (100, 10_000)] == [3.0, 60.0]
    assert latencies.limit("ListModels", 100) is None


@given(st.lists(st.floats(0.001, 100), min_size=8, max_size=200))
def test_a_limit_is_a_multiple_of_a_high_latency_among_the_latest(seconds: list[float]) -> None:
    latencies = Latencies()
    for each in seconds:
        latencies.observe("a", 100, each)
    limit = latencies.limit("a", 100)
    assert limit is not None
    latest = sorted(seconds[-MAX_SAMPLES:])
    assert FLOOR_SECONDS <= limit <= max(FLOOR_SECONDS, MULTIPLE * latest[-1])
    assert sum(limit < MULTIPLE * each for each in latest) <= (1 - QUANTILE) * len(latest) + 1


def test_a_budget_allows_no_retries_when_half_of_it_is_spent() -> None:
    budget = RetryBudget()
    assert [budget.spend() for _ in range(51)] == [True] * 49 + [False] * 2
    for _ in range(40):
        budget.earn()
    assert budget.spend()


def test_tries_go_to_the_address_with_the_fewest_in_turn() -> None:
    addresses = World(3).addresses
    assert [addresses.begin() for _ in range(6)] == [0, 1, 2, 0, 1, 2]
    addresses.end(1)
    assert addresses.begin() == 1
    assert addresses.begin(avoided=[0]) in (1, 2)


def test_an_ejected_address_gets_no_tries_for_some_time() -> None:
    world = World()
    for _ in range(50):  # failures at once, which eject it only once
        world.addresses.eject(0, "frozen")
    assert {world.addresses.begin() for _ in range(10)} == {1}
    world.now += 2
    assert world.addresses.begin() == 0
    world.addresses.answered(0)
    assert world.addresses.begin() == 0


def test_the_time_of_an_ejection_grows_up_to_a_maximum() -> None:
    world, times = World(), []
    for _ in range(6):
        world.addresses.eject(0, "frozen")
        begun = world.now
        while not world.addresses.has_other([1]):
            world.now += 0.01
        times.append(round(world.now - begun))
    assert times == [1, 1, 2, 4, 9, 17]


def test_if_all_addresses_are_ejected_calls_go_to_them_all_the_same() -> None:
    addresses = World().addresses
    addresses.eject(0, "killed")
    addresses.eject(1, "killed")
    assert sorted([addresses.begin(), addresses.begin()]) == [0, 1]


def test_a_late_answer_makes_one_hedge() -> None:
    world = World().knows(0.1, READ, UNHEDGED)
    plan = world.plan()
    assert addresses_of(plan) == [0]
    world.now += 0.4
    assert addresses_of(plan) == [1]
    world.now += 5
    assert plan.step().tries == []


def test_without_known_latencies_a_hedge_is_sent_when_half_of_the_time_is_over() -> None:
    world = World()
    plan, begun = world.plan(timeout=60), world.now
    plan.step()
    world.now += plan.step().wait or 0.0
    assert (addresses_of(plan), world.now - begun) == ([1], 30)


@pytest.mark.parametrize("why", ["the RPC", "the budget", "one address"])
def test_a_call_that_may_not_be_hedged_is_sent_once(why: str) -> None:
    world = World(1 if why == "one address" else 2).knows(0.1, READ, UNHEDGED)
    while why == "the budget" and world.shared.budget.spend():
        pass
    plan = world.plan(method=UNHEDGED if why == "the RPC" else READ)
    plan.step()
    for _ in range(100):
        world.now += 0.5
        assert plan.step().tries == []
    assert (plan.step().wait is None) == (why != "the budget")


@pytest.mark.parametrize("addresses", [1, 2])
def test_a_write_that_may_have_been_carried_out_is_never_sent_again(addresses: int) -> None:
    for fault, ends in ((BROKEN, True), (SILENT, True), (UNREACHED, False), (Fault(kind=FaultKind.REFUSED), False)):
        plan = World(addresses).plan(method=WRITE)
        assert plan.failed(sent(plan), fault) is ends


def test_calls_to_servers_that_are_all_gone_spend_the_budget() -> None:
    world = World(1)
    assert failures(world, world.plan(timeout=2.0), UNREACHED) >= 5
    while world.shared.budget.spend():
        pass
    # Without it, no call fails sooner, but tries are a second apart from the first.
    assert sum(failures(world, world.plan(timeout=2.0), UNREACHED) for _ in range(10)) <= 30


def test_a_refused_connection_is_tried_elsewhere_at_once() -> None:
    plan = World().plan()
    [(number, address)] = plan.step().tries
    assert not plan.failed(number, UNREACHED)
    assert addresses_of(plan) == [1 - address]


@pytest.mark.parametrize("addresses", [1, 2])
def test_refused_connections_are_retried_until_the_deadline(addresses: int) -> None:
    world = World(addresses)
    begun = world.now
    assert failures(world, world.plan(timeout=20), UNREACHED) <= 30 * addresses + 1  # a second apart in the end
    assert 18.5 <= world.now - begun < 20


@pytest.mark.parametrize("addresses", [1, 2, 5])
def test_a_call_that_breaks_connections_is_given_up_after_three(addresses: int) -> None:
    world = World(addresses)
    assert failures(world, world.plan(), BROKEN) == 3


@pytest.mark.parametrize("addresses", [1, 2, 5])
def test_a_call_to_servers_without_processor_time_goes_on_until_its_deadline(addresses: int) -> None:
    world = World(addresses)
    assert failures(world, world.plan(), SILENT, seconds=2.8) > 10
    assert world.now > 1055


def test_the_delay_of_an_overloaded_server_is_kept_and_spread() -> None:
    world = World()
    plan = world.plan()
    assert not plan.failed(sent(plan), Fault(kind=FaultKind.OVERLOADED, delay=4.0))
    assert plan.step().wait == pytest.approx(4.5)
    world.now += 4.5
    sent(plan)


def test_a_delay_beyond_the_deadline_ends_the_call_at_once() -> None:
    plan = World().plan(timeout=3)
    assert plan.failed(sent(plan), Fault(kind=FaultKind.OVERLOADED, delay=4.0))


def test_overloaded_servers_see_few_retries_of_many_calls() -> None:
    world, overloaded = World(), Fault(kind=FaultKind.OVERLOADED, delay=0.0)
    assert sum(failures(world, world.plan(), overloaded) - 1 for _ in range(1000)) < 50


@pytest.mark.parametrize(("fault", "ends_the_call"), [(FINAL, True), (LATE, False)])
def test_a_final_failure_of_one_try_ends_the_call_and_a_late_one_only_with_the_last(
    fault: Fault, ends_the_call: bool
) -> None:
    world = World().knows(0.1, READ, UNHEDGED)
    plan = world.plan()
    first = sent(plan)
    world.now += 0.4
    second = sent(plan)
    assert plan.failed(first, fault) is ends_the_call
    assert plan.failed(second, fault)


def test_closing_a_plan_frees_its_addresses() -> None:
    world = World()
    plan = world.plan()
    plan.step()
    plan.close()
    assert sorted([world.addresses.begin(), world.addresses.begin()]) == [0, 1]


def test_a_session_with_answers_may_break_as_often_as_it_likes() -> None:
    world = World()
    assert failures(world, world.plan(method=STREAM), BROKEN) == 3
    plan = world.plan(method=STREAM)
    for _ in range(10):
        while not (tries := plan.step().tries):
            world.now += 0.1
        plan.forget_failures(deadline=world.now + 60)
        assert not plan.failed(tries[0][0], BROKEN)


def contact_of(world: World, *findings: Finding | None, waits: bool = False) -> None:
    """Let a world's addresses be known by these findings, found at once."""
    contact = FirstContact(len(world.addresses), lambda number: findings[number], waits=waits)
    world.shared.first_contact = contact
    for number in range(len(world.addresses)):
        contact.failed(number)
    for thread in threading.enumerate():
        if thread.name == "xuanzang-diagnosis":
            thread.join()


def seconds_until_failure(world: World) -> float:
    began = world.now
    failures(world, world.plan(), UNREACHED)
    return world.now - began


REFUSED = Finding(text="refuses connections")
MISMATCH = Finding(text="speaks TLS", is_final=True)


def test_a_call_gives_up_soon_if_every_address_refuses_from_the_start() -> None:
    world = World()
    contact_of(world, REFUSED, REFUSED)
    assert 1 < seconds_until_failure(world) <= 3
    assert world.shared.causes == "refuses connections; refuses connections"


def test_a_call_does_not_wait_where_waiting_cannot_help() -> None:
    world = World(1)
    contact_of(world, MISMATCH)
    assert seconds_until_failure(world) == 0


@pytest.mark.parametrize("findings", [(None, REFUSED), (REFUSED, None)])
def test_a_call_waits_for_a_server_that_is_there_and_not_ready(findings: tuple[Finding | None, ...]) -> None:
    world = World()
    contact_of(world, *findings)
    assert seconds_until_failure(world) > 50


@pytest.mark.parametrize("waits", [False, True])
def test_a_call_waits_if_it_is_told_to_or_if_a_server_has_ever_answered(waits: bool) -> None:
    world = World(1)
    contact_of(world, MISMATCH, waits=waits)
    if not waits:
        world.addresses.answered(0)
        assert world.shared.causes == ""
    assert seconds_until_failure(world) > 50
