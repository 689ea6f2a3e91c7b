"""Shared limits: nobody takes those of others, whatever it takes of its own."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.responses import Response
from starlette.types import Message

from xuanzang.gateway.app import FairlyStarted
from xuanzang.gateway.errors import RefusedError
from xuanzang.gateway.limits import Holder, SharedLimit, Shares
from xuanzang.serving.fair_start import FairStart
from xuanzang.serving.networks import network_of

SHARES = Shares(address=0.75, caller=0.5)
WHO = st.tuples(st.builds(Holder, st.sampled_from("abc"), st.sampled_from("xyz")), st.integers(1, 9))


@given(st.lists(st.tuples(st.booleans(), WHO), max_size=60))
def test_no_share_is_exceeded_and_all_places_come_back(steps: list[tuple[bool, tuple[Holder, int]]]) -> None:
    places, held = SharedLimit("things", total=40, shares=SHARES), list[tuple[Holder, int]]()
    for is_taking, who in steps:
        if not is_taking and held:
            places.release(*held.pop())
            continue
        try:
            places.take(*who)
        except RefusedError:
            continue
        held.append(who)
        of_address, of_caller = Counter[str](), Counter[str]()
        for holder, number in held:
            of_address[holder.address] += number
            of_caller[holder.caller] += number
        assert places.taken == of_address.total() <= 40
        assert max(of_address.values()) <= 30
        assert max(of_caller.values()) <= 20
    while held:
        places.release(*held.pop())
    places.take(Holder("a", "x"), 20)


@pytest.mark.parametrize(
    ("taken", "newcomer", "status", "limit"),
    [
        ([("a", "x", 20)], ("a", "x", 1), 429, "20 things of one caller"),
        ([("a", "x", 20), ("a", "y", 10)], ("a", "z", 1), 429, "30 things of one network address"),
        ([("a", "x", 18), ("b", "y", 17)], ("b", "z", 1), 503, "35 things outside the reserve"),
        ([("a", "x", 18), ("b", "y", 17), ("c", "z", 5)], ("d", "w", 1), 503, "40 things"),
    ],
)
def test_a_refusal_names_its_limit(
    taken: list[tuple[str, str, int]], newcomer: tuple[str, str, int], status: int, limit: str
) -> None:
    places = SharedLimit("things", total=40, shares=SHARES)
    # The last row's third address finds the reserve.
    for address, caller, number in taken:
        places.take(Holder(address, caller), number)
    with pytest.raises(RefusedError, match=limit) as refused:
        places.take(Holder(*newcomer[:2]), newcomer[2])
    assert refused.value.fault.status == status
    assert refused.value.fault.retry_after == 1


async def take_turn(limit: SharedLimit, caller: str, order: list[str], release: asyncio.Event) -> None:
    async with limit.turn(Holder("a", caller)):
        order.append(caller)
        await release.wait()


async def test_one_caller_leaves_half_of_the_turns_to_others() -> None:
    limit, order, release = SharedLimit("things", total=2, shares=SHARES), list[str](), asyncio.Event()
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        for caller in ("ann", "ann", "bob", "eve"):
            group.create_task(take_turn(limit, caller, order, release))
        while len(order) < 2:  # noqa: ASYNC110 - nothing else tells of it
            await asyncio.sleep(0)
        assert order == ["ann", "bob"]
        release.set()
    assert order == ["ann", "bob", "ann", "eve"]
    assert limit.taken == 0


@given(st.data())
async def test_whoever_waits_has_a_turn_or_gives_it_up(data: st.DataObject) -> None:
    limit, order, release = SharedLimit("things", total=3, shares=SHARES), list[str](), asyncio.Event()
    callers = data.draw(st.lists(st.sampled_from("xyz"), max_size=8))
    tasks = [asyncio.create_task(take_turn(limit, caller, order, release)) for caller in callers]
    await asyncio.sleep(0)
    for task in tasks:
        if data.draw(st.booleans()):
            task.cancel()
        if data.draw(st.booleans()):
            await asyncio.sleep(0)
    release.set()
    async with asyncio.timeout(30):
        found = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(each is None or isinstance(each, asyncio.CancelledError) for each in found)
    assert limit.taken == 0
    limit.take(Holder("a", "x"), 2)


def test_a_host_is_counted_by_its_network() -> None:
    networks = {"127.0.0.1": "127.0.0.1", "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64", "fe80::1%eth0": "fe80::/64"}
    networks |= {"::ffff:10.0.0.1": "10.0.0.1", "": ""}
    assert {host: network_of(host) for host in networks} == networks


@pytest.mark.parametrize(("status", "is_refused"), [(200, False), (302, False), (400, True), (429, True), (503, True)])
async def test_a_refused_request_counts_against_its_address(
    status: int, is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused, sent = list[str](), list[Message]()
    monkeypatch.setattr(FairStart, "refused", lambda _, address: refused.append(address))

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def keep(message: Message) -> None:
        sent.append(message)

    start = FairStart(asyncio.get_running_loop(), refusal_seconds=0.005)
    scope = {"type": "http", "path": "/v1/translate", "client": ("10.0.0.2", 1)}
    await FairlyStarted(Response(status_code=status), start=start)(scope, receive, keep)
    assert sent[0]["status"] == status
    assert refused == ["10.0.0.2"] * is_refused
