from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from opcodes import opcodes_of

from xuanzang.server.observation.callers import sender_of
from xuanzang.serving import fair_start
from xuanzang.serving.fair_start import FairStart

REFUSAL_SECONDS = 0.001


def new_start() -> FairStart:
    return FairStart(asyncio.get_running_loop(), refusal_seconds=REFUSAL_SECONDS)


class StartedCalls:
    """RPCs that have begun, by the names of their callers."""

    def __init__(self) -> None:
        self.start = new_start()
        self.begun: list[Any] = []
        self._next = asyncio.Event()

    def add(self, name: Any, address: str, *, is_refused: bool = False, is_probe: bool = False) -> None:
        def begin() -> bool:
            self.begun.append(name)
            self._next.set()
            return is_refused

        self.start.add(address, begin, is_probe=is_probe)

    async def until(self, number: int) -> None:
        async with asyncio.timeout(30):
            while len(self.begun) < number:
                self._next.clear()
                await self._next.wait()


@pytest.fixture
async def rpcs() -> StartedCalls:
    return StartedCalls()


@pytest.mark.parametrize(
    ("is_refused", "address", "is_probe"), [(False, "b", False), (True, "b", False), (False, "a", True)]
)
async def test_no_crowd_is_waited_for_by_an_rpc_of_another_address_or_a_probe_of_its_own(
    rpcs: StartedCalls, is_refused: bool, address: str, is_probe: bool
) -> None:
    for _ in range(100):
        rpcs.add("crowd", "a", is_refused=is_refused)
    rpcs.add("single", address, is_probe=is_probe)
    rpcs.add("crowd", "a", is_refused=is_refused)
    await rpcs.until(102)
    assert rpcs.begun.index("single") <= 8


async def test_rpcs_of_an_address_begin_in_the_order_of_arrival(rpcs: StartedCalls) -> None:
    for number in range(20):
        rpcs.add(number, "a", is_refused=number % 3 == 0)
        if number % 6 == 0:
            rpcs.add("", "b")
            await asyncio.sleep(0)
    await rpcs.until(24)
    assert [each for each in rpcs.begun if each != ""] == list(range(20))


async def test_an_rpc_begins_at_once_and_other_work_goes_on_between_those_of_a_crowd(rpcs: StartedCalls) -> None:
    rpcs.add(0, "a")
    assert rpcs.begun == [0]
    for number in range(1, 100):
        rpcs.add(number, "a")
    seen = 0
    while len(rpcs.begun) < 100:
        assert len(rpcs.begun) - seen <= 4
        seen = len(rpcs.begun)
        await asyncio.sleep(0)


@pytest.mark.parametrize(("other", "is_probe", "pauses"), [("b", False, True), ("b", True, False), ("a", False, False)])
async def test_refusals_have_pauses_while_another_address_calls(
    rpcs: StartedCalls, other: str, is_probe: bool, pauses: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, now, paused = asyncio.get_running_loop(), 100.0, list[float]()

    def call_later(seconds: float, call: Callable[[], None]) -> asyncio.Handle:
        nonlocal now
        paused.append(seconds)
        now += seconds
        return loop.call_soon(call)

    monkeypatch.setattr(loop, "time", lambda: now)
    monkeypatch.setattr(loop, "call_later", call_later)
    rpcs.add("refused", "a", is_refused=True)
    rpcs.add("other", other, is_probe=is_probe)
    for _ in range(40):
        rpcs.add("refused", "a", is_refused=True)
    for _ in range(1000):
        await asyncio.sleep(0)
    monkeypatch.undo()
    assert len(rpcs.begun) == 42
    assert sum(paused) == pytest.approx(REFUSAL_SECONDS * 39 if pauses else 0)


async def test_a_failed_rpc_keeps_its_address_waiting_and_no_other(rpcs: StartedCalls) -> None:
    for name in ("first", "other"):
        rpcs.add(name, name)
    await asyncio.sleep(0)
    rpcs.start.refused("first", refusals=4)
    rpcs.add("again", "first")
    await asyncio.sleep(0)
    rpcs.add("third", "third")
    assert rpcs.begun == ["first", "other", "third"]
    await rpcs.until(4)


async def test_many_failures_at_once_pause_an_address_for_seconds_only(
    rpcs: StartedCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: 100.0)
    for number in range(100):
        rpcs.add("", str(number))
        rpcs.start.refused(str(number), refusals=4)
    for _ in range(1000):
        rpcs.start.refused("0", refusals=4)
    assert max(line.paused_until for line in rpcs.start._lines.values()) == pytest.approx(105)


def test_the_addresses_of_an_ipv6_network_have_one_line() -> None:
    lines = {"ipv6:%5B2001:db8::2%5D:7": "2001:db8::/64", "ipv4:10.0.0.2:7": "ipv4:10.0.0.2", "unix:": "unix"}
    assert {peer: sender_of(peer).network for peer in lines} == lines


async def test_after_a_long_turn_one_waiting_rpc_begins_and_the_others_pause(
    rpcs: StartedCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, now, paused = asyncio.get_running_loop(), 100.0, list[float]()
    monkeypatch.setattr(loop, "time", lambda: now)
    monkeypatch.setattr(loop, "call_later", lambda seconds, _: paused.append(seconds))
    rpcs.add("other", "b")
    for number in range(12):
        rpcs.add(number, "a")
    assert rpcs.begun == ["other", 0, 1, 2]
    now += 0.01
    await asyncio.sleep(0)
    assert rpcs.begun == ["other", 0, 1, 2, 3]
    assert paused == pytest.approx([0.01])


async def test_a_refused_caller_that_comes_back_at_once_waits_for_the_pause(rpcs: StartedCalls) -> None:
    rpcs.add("", "b")
    rpcs.add("first", "a", is_refused=True)
    rpcs.add("again", "a", is_refused=True)
    await asyncio.sleep(0)
    rpcs.add("other", "b")
    await rpcs.until(4)
    assert rpcs.begun == ["", "first", "other", "again"]


async def test_no_further_rpc_is_taken_while_too_many_wait(rpcs: StartedCalls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_start, "MAX_WAITING", 10)

    async def take() -> None:
        for number in range(40):
            await rpcs.start.room()
            rpcs.add(number, "a")

    taking = asyncio.create_task(take())
    while not taking.done():
        assert rpcs.start._waiting <= 10
        await asyncio.sleep(0)
    await rpcs.until(40)


async def test_requests_of_a_crowd_begin_a_few_at_a_time_and_addresses_in_turn() -> None:
    start, begun = new_start(), list[str]()

    async def begin(address: str) -> None:
        await start.turn(address)
        begun.append(address)

    crowd = [asyncio.create_task(begin("crowd")) for _ in range(300)]
    other = asyncio.create_task(begin("other"))
    cancelled = asyncio.create_task(begin("third"))
    await asyncio.sleep(0)
    # Calls that have begun without waiting.
    assert begun == ["crowd"] * 4
    cancelled.cancel()
    await other
    assert len(begun) <= 8
    await asyncio.gather(*crowd)
    assert Counter(begun) == {"crowd": 300, "other": 1}
    await asyncio.sleep(0)
    await asyncio.wait_for(begin("later"), 60)


@pytest.mark.parametrize("pauses", [False, True])
async def test_a_turn_costs_as_much_beside_thousands_of_waiting_addresses_as_beside_a_few(pauses: bool) -> None:
    def cost(addresses: int) -> float:
        start = new_start()
        start.add("first", lambda: False)
        for number in range(addresses):
            start.add(str(number), lambda: False)
            if pauses and number % 2:
                start.refused(str(number), refusals=10_000)

        def go_on() -> None:
            for _ in range(5):
                start._go_on()

        return opcodes_of(go_on)

    assert cost(4000) <= 2 * cost(40)
