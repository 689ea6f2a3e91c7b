from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xuanzang.client._reliability.addresses import Addresses
from xuanzang.client._reliability.first_contact import Finding, FirstContact
from xuanzang.client._reliability.plan import CallPlan, Shared
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

READ: Method[object, object] = Method("TranslateText")
UNHEDGED: Method[object, object] = Method("ExplainTranslation", may_be_hedged=False)
WRITE: Method[object, object] = Method("DeleteGlossary", is_repeatable=False, may_be_hedged=False)


class World:
    """A clock that stands until it is moved, and what calls share in it; random numbers are always 0.5."""

    def __init__(self, addresses: int = 2) -> None:
        self.now = 100.0
        names = [f"address {number}" for number in range(addresses)]
        self.addresses = Addresses(names, clock=self.clock, random=self.random)
        self.shared = Shared(addresses=self.addresses, clock=self.clock, random=self.random)

    def clock(self) -> float:
        return self.now

    def random(self) -> float:
        return 0.5

    def knows(self, seconds: float) -> World:
        """Let every size have this latency."""
        for size in range(40):
            for _ in range(MIN_SAMPLES):
                self.shared.latencies.observe(READ.rpc, 2**size, seconds)
        return self

    def plan(self, timeout: float = 60.0, traits: Method[object, object] = READ) -> CallPlan:
        return CallPlan(self.shared, traits, deadline=self.now + timeout, size=100)


def pass_time(world: World, plan: CallPlan) -> list[int]:
    """Move the clock to the next step; return the addresses that it sends to."""
    wait = plan.step().wait
    assert wait is not None
    world.now += wait
    return [address for _, address in plan.step().tries]


def test_no_limit_is_known_before_enough_answers() -> None:
    latencies = Latencies()
    for _ in range(MIN_SAMPLES):
        assert latencies.limit("a", 100) is None
        latencies.observe("a", 100, 1.0)
    assert latencies.limit("a", 100) == 3.0


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


def test_large_requests_do_not_raise_the_limit_of_small_ones() -> None:
    latencies = Latencies()
    for _ in range(20):
        latencies.observe("a", 10, 1.0)
        latencies.observe("a", 10_000, 20.0)
    assert latencies.limit("a", 10) == 3.0
    assert latencies.limit("a", 10_000) == 60.0


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


def test_many_failures_at_once_eject_an_address_only_once() -> None:
    world = World()
    for _ in range(50):
        world.addresses.eject(0, "killed")
    world.now += 2
    assert world.addresses.has_other([1])


def test_if_all_addresses_are_ejected_calls_go_to_them_all_the_same() -> None:
    addresses = World().addresses
    addresses.eject(0, "killed")
    addresses.eject(1, "killed")
    assert sorted([addresses.begin(), addresses.begin()]) == [0, 1]


def test_a_late_answer_makes_one_hedge() -> None:
    world = World().knows(0.1)
    plan = world.plan()
    assert [address for _, address in plan.step().tries] == [0]
    world.now += 0.4
    assert [address for _, address in plan.step().tries] == [1]
    world.now += 5
    assert plan.step().tries == []


def test_without_known_latencies_a_hedge_is_sent_when_half_of_the_time_is_over() -> None:
    world = World()
    plan, begun = world.plan(timeout=60), world.now
    plan.step()
    assert (pass_time(world, plan), world.now - begun) == ([1], 30)


def test_an_rpc_that_is_not_hedged_is_sent_once() -> None:
    world = World()
    for _ in range(MIN_SAMPLES):
        world.shared.latencies.observe(UNHEDGED.rpc, 100, 0.1)
    plan = world.plan(timeout=10, traits=UNHEDGED)
    plan.step()
    for _ in range(50):
        world.now += 0.19
        assert plan.step().tries == []


def test_latencies_of_one_rpc_say_nothing_of_another() -> None:
    latencies = Latencies()
    for _ in range(MIN_SAMPLES):
        latencies.observe("ListModels", 100, 0.001)
    assert latencies.limit("ListModels", 100) == FLOOR_SECONDS
    assert latencies.limit("TranslateText", 100) is None


@pytest.mark.parametrize("addresses", [1, 2])
def test_a_write_that_may_have_been_carried_out_is_never_sent_again(addresses: int) -> None:
    for fault, ends in ((BROKEN, True), (SILENT, True), (UNREACHED, False), (Fault(kind=FaultKind.REFUSED), False)):
        plan = World(addresses).plan(traits=WRITE)
        [(number, _)] = plan.step().tries
        assert plan.failed(number, fault) is ends


def tries_of_calls_to_nobody(world: World, calls: int, seconds: float) -> int:
    """Return the tries that calls make, one after another, each until its deadline."""
    tries = 0
    for _ in range(calls):
        plan = world.plan(timeout=seconds)
        [(number, _)] = plan.step().tries
        tries += 1
        while not plan.failed(number, UNREACHED):
            while not (step := plan.step()).tries:
                assert step.wait is not None
                world.now += step.wait
            [(number, _)] = step.tries
            tries += 1
    return tries


def test_calls_to_servers_that_are_all_gone_spend_the_budget() -> None:
    world = World(1)
    assert tries_of_calls_to_nobody(world, 1, 2.0) >= 5
    while world.shared.budget.spend():
        pass
    # Without it, no call fails sooner, but tries are a second apart from the first.
    assert tries_of_calls_to_nobody(world, 10, 2.0) <= 30


def test_hedges_end_with_the_budget() -> None:
    world = World().knows(0.1)
    while world.shared.budget.spend():
        pass
    plan = world.plan()
    plan.step()
    for _ in range(100):
        world.now += 0.5
        assert plan.step().tries == []


def test_a_call_to_a_single_address_is_not_hedged() -> None:
    world = World(1).knows(0.1)
    plan = world.plan()
    assert plan.step().wait == 0.0 or plan.step().wait is None
    world.now += 50
    step = plan.step()
    assert (step.tries, step.wait) == ([], None)


def test_a_refused_connection_is_tried_elsewhere_at_once() -> None:
    plan = World().plan()
    [(number, address)] = plan.step().tries
    assert not plan.failed(number, UNREACHED)
    assert [other for _, other in plan.step().tries] == [1 - address]


@pytest.mark.parametrize("addresses", [1, 2])
def test_refused_connections_are_retried_until_the_deadline(addresses: int) -> None:
    world = World(addresses)
    plan, begun, times = world.plan(timeout=20), world.now, []
    [(number, _)] = plan.step().tries
    while not plan.failed(number, UNREACHED):
        step = plan.step()
        while not step.tries:
            assert step.wait is not None
            world.now += step.wait
            step = plan.step()
        [(number, _)] = step.tries
        times.append(world.now)
    assert 18.5 <= world.now - begun < 20
    assert len(times) <= 30 * addresses  # a second apart in the end


@pytest.mark.parametrize("addresses", [1, 2, 5])
def test_a_call_that_breaks_connections_is_given_up_after_three(addresses: int) -> None:
    world = World(addresses)
    plan, breaks = world.plan(), 0
    [(number, _)] = plan.step().tries
    while not plan.failed(number, BROKEN):
        breaks += 1
        tries = plan.step().tries
        while not tries:
            world.now += 0.1
            tries = plan.step().tries
        [(number, _)] = tries
    assert breaks == 2


@pytest.mark.parametrize("addresses", [1, 2, 5])
def test_a_call_to_servers_without_processor_time_goes_on_until_its_deadline(addresses: int) -> None:
    world = World(addresses)
    plan, silences = world.plan(), 0
    [(number, _)] = plan.step().tries
    while True:
        world.now += 2.8
        silences += 1
        if plan.failed(number, SILENT):
            break
        while not (tries := plan.step().tries):
            world.now += 0.1
        [(number, _)] = tries
    assert silences > 10
    assert world.now > 155


def test_the_delay_of_an_overloaded_server_is_kept_and_spread() -> None:
    world = World()
    plan = world.plan()
    [(number, _)] = plan.step().tries
    assert not plan.failed(number, Fault(kind=FaultKind.OVERLOADED, delay=4.0))
    assert plan.step().wait == pytest.approx(4.5)
    assert len(pass_time(world, plan)) == 1


def test_a_delay_beyond_the_deadline_ends_the_call_at_once() -> None:
    plan = World().plan(timeout=3)
    [(number, _)] = plan.step().tries
    assert plan.failed(number, Fault(kind=FaultKind.OVERLOADED, delay=4.0))


def test_overloaded_servers_see_few_retries_of_many_calls() -> None:
    world, retries = World(), 0
    for _ in range(1000):
        plan = world.plan()
        [(number, _)] = plan.step().tries
        while not plan.failed(number, Fault(kind=FaultKind.OVERLOADED, delay=0.0)):
            world.now += 0.5
            [(number, _)] = plan.step().tries
            retries += 1
    assert retries < 50


def test_a_final_failure_of_one_try_ends_the_call() -> None:
    world = World().knows(0.1)
    plan = world.plan()
    [(first, _)] = plan.step().tries
    world.now += 0.4
    plan.step()
    assert plan.failed(first, FINAL)


def test_a_late_try_ends_the_call_only_with_the_last() -> None:
    world = World().knows(0.1)
    plan = world.plan()
    [(first, _)] = plan.step().tries
    world.now += 0.4
    [(second, _)] = plan.step().tries
    assert not plan.failed(first, LATE)
    assert plan.failed(second, LATE)


def test_closing_a_plan_frees_its_addresses() -> None:
    world = World()
    plan = world.plan()
    plan.step()
    plan.close()
    assert sorted([world.addresses.begin(), world.addresses.begin()]) == [0, 1]


@pytest.mark.parametrize(("progress", "ended_after"), [(False, 3), (True, None)])
def test_a_session_with_answers_may_break_as_often_as_it_likes(progress: bool, ended_after: int | None) -> None:
    world = World()
    plan = world.plan(traits=STREAM)
    for broken in range(1, 10):
        while not (step := plan.step()).tries:
            world.now += 0.1
        [(number, _)] = step.tries
        if progress:
            plan.forget_failures(deadline=world.now + 60)
        if plan.failed(number, BROKEN):
            assert broken == ended_after
            return
    assert ended_after is None


def contact_of(world: World, *findings: Finding | None, waits: bool = False) -> FirstContact:
    """Let a world's addresses be known by these findings, found at once."""
    contact = FirstContact(len(world.addresses), lambda number: findings[number], waits=waits)
    world.shared.first_contact = contact
    for number in range(len(world.addresses)):
        contact.failed(number)
    for thread in threading.enumerate():
        if thread.name == "xuanzang-diagnosis":
            thread.join()
    return contact


def seconds_until_failure(world: World, fault: Fault = UNREACHED) -> float:
    """Fail every try of a call until the call has failed."""
    began, plan = world.now, world.plan()
    step = plan.step()
    while True:
        for number, _ in step.tries:
            if plan.failed(number, fault):
                return world.now - began
        step = plan.step()
        if not step.tries:
            world.now += step.wait or 0.0
            step = plan.step()


REFUSED = Finding(text="refuses connections")
MISMATCH = Finding(text="speaks TLS", is_final=True)


def test_a_call_gives_up_soon_if_every_address_refuses_from_the_start() -> None:
    world = World(addresses=2)
    contact_of(world, REFUSED, REFUSED)
    assert 1 < seconds_until_failure(world) <= 3
    assert world.shared.causes == "refuses connections; refuses connections"


def test_a_call_does_not_wait_where_waiting_cannot_help() -> None:
    world = World(addresses=1)
    contact_of(world, MISMATCH)
    assert seconds_until_failure(world) == 0


@pytest.mark.parametrize("findings", [(None, REFUSED), (REFUSED, None)])
def test_a_call_waits_for_a_server_that_is_there_and_not_ready(findings: tuple[Finding | None, ...]) -> None:
    world = World(addresses=2)
    contact_of(world, *findings)
    assert seconds_until_failure(world) > 50


def test_a_call_waits_if_it_is_told_to_or_if_a_server_has_ever_answered() -> None:
    world = World(addresses=1)
    contact_of(world, MISMATCH, waits=True)
    assert seconds_until_failure(world) > 50
    world = World(addresses=1)
    contact_of(world, REFUSED)
    world.addresses.answered(0)
    assert seconds_until_failure(world) > 50
    assert world.shared.causes == ""
