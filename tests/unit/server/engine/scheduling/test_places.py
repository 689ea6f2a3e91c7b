"""Places in the running batches are shared, in virtual time: nobody waits for what another caller has too much of."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable
from functools import partial
from itertools import product

import pytest
from tests.unit.server.engine.scheduling.virtual_server import GREEDY, Speed, VirtualServer

from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.queue import COMMON, LIGHT, TIERS, FairQueue
from xuanzang.server.engine.scheduling.request import QueuedSentence
from xuanzang.server.engine.types import CallerId, DecodingOptions

SECONDS = 2.5
LENGTH = 12
# A step of a full batch takes nine times as long as one of a single sentence.
SPEED = Speed(step=0.0008, sentence=0.0002)
WIDE = dataclasses.replace(GREEDY, beam_size=16)
LONG = 150
DEADLINE = 5.0


def percentile(seconds: list[float], share: float) -> float:
    return sorted(seconds)[math.ceil(share * len(seconds)) - 1]


MakeServer = Callable[..., VirtualServer]


@pytest.fixture
def make_server(monkeypatch: pytest.MonkeyPatch, model: LoadedModel) -> MakeServer:
    return lambda workers, speed=SPEED: VirtualServer(monkeypatch, model, speed, workers=workers)


def measured(server: VirtualServer, *attackers: tuple[list[int], DecodingOptions], address: str) -> list[float]:
    """Return the seconds of single sentences beside attackers, who come first; {} in an address is their number."""
    until = server.now + SECONDS
    for number, (lengths, options) in enumerate(attackers):
        caller = f"{address.format(number)}/{number}"
        server.attack(caller, lengths, until=until, options=options)
    taken = server.serial("one", LENGTH, deadline=DEADLINE, until=until)
    server.go_on()
    return taken


ATTACKS = {
    "long sentences": [([LONG] * 64, GREEDY)],
    "a thousand": [([LONG] * 1000, GREEDY)],
    "wide beams": [([LONG] * 64, WIDE)],
    "short sentences": [([3] * 64, GREEDY)],
    "four callers": [([LONG] * 64, GREEDY)] * 4,
    "wide and short": [([LONG] * 64, WIDE), ([3] * 500, GREEDY)],
}
ADDRESSES = ("{}", "other", "one")
# Each attack comes from each address, and meets each number of workers, as each address does.
CASES = [
    (attack, address, (1, 2, 4)[(row + column) % 3])
    for row, attack in enumerate(ATTACKS)
    for column, address in enumerate(ADDRESSES)
]


@pytest.mark.parametrize(("attack", "address", "workers"), [*CASES, ("700 names", "other", 2)])
async def test_a_caller_of_single_sentences_hardly_notices_one_who_takes_all_it_can_get(
    make_server: MakeServer, workers: int, attack: str, address: str
) -> None:
    calm = measured(make_server(workers), address=address)
    beside = measured(make_server(workers), *ATTACKS.get(attack, [([LONG], GREEDY)] * 700), address=address)
    assert percentile(beside, 0.99) <= 3 * percentile(calm, 0.99)
    # Nothing that is admitted expires: a call that does would end the caller's row.
    assert sum(beside) + 0.003 * len(beside) >= SECONDS - 3 * percentile(calm, 0.99)


@pytest.mark.parametrize(("workers", "sentences"), [(2, 4), (3, 8), (2, 64)])
async def test_one_finds_a_worker_that_encodes_no_long_ones(
    make_server: MakeServer, workers: int, sentences: int
) -> None:
    speed = dataclasses.replace(SPEED, joining=0.001, joining_token=0.0001)
    calm = measured(make_server(workers, speed), address="{}")
    beside = measured(make_server(workers, speed), ([422] * sentences, GREEDY), address="{}")
    assert percentile(beside, 0.99) <= 3 * percentile(calm, 0.99)


@pytest.mark.parametrize("workers", [1, 2, 4])
async def test_callers_within_their_shares_cost_one_their_rows_alone(make_server: MakeServer, workers: int) -> None:
    calm = measured(make_server(workers), address="{}")
    beside = measured(make_server(workers), *[([100] * 4, GREEDY)] * 6, address="{}")
    rows = 1 + 6 * 4 / workers
    longer = (SPEED.step + rows * SPEED.sentence) / (SPEED.step + SPEED.sentence)
    assert percentile(beside, 0.99) <= 1.25 * longer * percentile(calm, 0.99)


@pytest.mark.parametrize(("workers", "address"), [(2, "{}"), (8, "one")])
@pytest.mark.parametrize(("callers", "sentences"), [(20, 3), (64, 1), (20, 19), (48, 8)])
async def test_callers_who_ask_for_as_much_as_each_other_are_decoded_as_if_they_were_one(
    make_server: MakeServer, workers: int, callers: int, sentences: int, address: str
) -> None:
    def served(names: int) -> float:
        server = make_server(workers)
        lengths, until = random.Random(1), server.now + SECONDS
        for number in range(callers):
            name = number % names
            length = lengths.randrange(4, 40)
            caller = f"{address.format(name)}/{name}"
            server.at(server.now, partial(server.attack, caller, [length] * sentences, until=until))
        server.go_on()
        return sum(server.rows) / sum(SPEED.step + rows * SPEED.sentence for rows in server.rows)

    assert served(callers) >= 0.97 * served(1)


async def test_an_attacker_keeps_a_part_of_the_time_beside_many_small_callers(make_server: MakeServer) -> None:
    server = make_server(1)
    until = server.now + SECONDS
    heavy = server.serial("heavy", 400, deadline=math.inf, until=until)
    for number in range(4):
        server.attack(f"small {number}", [LENGTH] * 4, until=until)
    server.go_on()
    # Its 400 tokens alone take 0.4 s; the tier of a lone long sentence has a third of the time beside a lighter one.
    assert heavy
    assert max(heavy) <= 0.4 * 8


@pytest.mark.parametrize("workers", [1, 2])
async def test_callers_take_turns_for_the_places_that_become_free(make_server: MakeServer, workers: int) -> None:
    server = make_server(workers)

    def taken(worker: int) -> list[QueuedSentence]:
        decision = server.scheduler.take(worker, idle_seconds=0)
        return [queued for joins in decision.joins.values() for queued in joins] if decision else []

    first, second = (server._request([LENGTH] * 200, math.inf, caller=caller) for caller in "ab")
    server.scheduler.submit(first)
    running = [taken(worker) for worker in range(workers)]
    assert [len(each) for each in running] == [32] * workers
    server.scheduler.submit(second)
    for worker in range(workers):
        assert taken(worker) == []
        for queued in running[worker][:16]:
            queued.steps = LENGTH
        server.scheduler.leave(worker, running[worker][:16], seconds=1.0)
        joined = [queued.request for queued in taken(worker)]
        assert joined.count(first) == joined.count(second) == 8


async def test_places_are_counted_by_tier_as_sentences_wait_and_are_taken(make_server: MakeServer) -> None:
    server = make_server(1)
    scheduler = server.scheduler

    def counts() -> list[tuple[int, int]]:
        return [(scheduler.held_places(tier), scheduler.waiting_places(tier)) for tier in TIERS]

    requests = [
        server._request([LENGTH] * count, math.inf, caller=caller, options=options)
        for caller, count, options in (("one", 1, GREEDY), ("few", 3, GREEDY), ("many", 64, WIDE))
    ]
    for request in requests:
        scheduler.submit(request)
    assert counts() == [(0, 64 * 4), (0, 4)]
    decision = scheduler.take(0, idle_seconds=0)
    assert decision is not None
    assert counts() == [(0, 64 * 4), (4, 0)]
    for request in requests:
        scheduler.close(request, "cancelled")
    scheduler.leave(0, [queued for joins in decision.joins.values() for queued in joins], seconds=1.0)
    assert counts() == [(0, 0)] * len(TIERS)


@pytest.mark.parametrize("seed", range(5))
def test_a_caller_is_heavy_with_more_than_four_times_the_places_of_the_smallest(seed: int) -> None:
    draw, queue, held = random.Random(seed), FairQueue(workers=2), dict[CallerId, int]()

    def of_shares(share: str | None = None) -> dict[str, int]:
        places: dict[str, int] = {}
        for caller, count in held.items():
            if count and share in {None, caller.share}:
                key = caller.name if share else caller.share
                places[key] = places.get(key, 0) + count
        return places

    def heavy(places: dict[str, int]) -> set[str]:
        return {key for key, count in places.items() if count > max(8, 4 * min(places.values()))}

    for _ in range(300):
        caller = CallerId(draw.choice("abc"), draw.choice("xyz"))
        if caller in held and draw.random() < 0.5:
            queue.close(caller, held.pop(caller))
        else:
            places = draw.choice((1, 1, 2, 9, 40))
            queue.open(caller, places)
            held[caller] = held.get(caller, 0) + places
        of_names = {share: heavy(of_shares(share)) for share in of_shares()}
        assert queue.is_split == bool(heavy(of_shares()) or any(of_names.values()))
        for share, name in product("abc", "xyz"):
            is_heavy = share in heavy(of_shares()) or name in of_names.get(share, ())
            assert queue.tier_of(CallerId(share, name)) == (LIGHT if queue.is_split and not is_heavy else COMMON)
