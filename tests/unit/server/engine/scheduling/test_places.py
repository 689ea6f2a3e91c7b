"""Callers in virtual time: nobody waits for what another has too much of, and what is admitted is answered."""

from __future__ import annotations

import dataclasses
import math
import random
import statistics
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path

import pytest
from tests.unit.server.engine.scheduling.virtual_server import GREEDY, Speed, Tally, VirtualServer

from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.queue import COMMON, LIGHT, TIERS, FairQueue
from xuanzang.server.engine.scheduling.request import QueuedSentence
from xuanzang.server.engine.scheduling.state import WorkerState
from xuanzang.server.engine.types import CallerId, DecodingOptions
from xuanzang.server.metrics import Metrics

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
async def test_one_finds_a_worker_without_long_ones(make_server: MakeServer, workers: int, sentences: int) -> None:
    speed = dataclasses.replace(SPEED, joining=0.001, joining_token=0.0001)
    calm = measured(make_server(workers, speed), address="{}")
    beside = measured(make_server(workers, speed), ([422] * sentences, GREEDY), address="{}")
    assert percentile(beside, 0.99) <= 3 * percentile(calm, 0.99)


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


TOKENS = 20
OVERLOAD_SECONDS, WARM = 25.0, 10.0

# A full batch of 32 takes 0.55 s, and 1 s for 20 tokens.
MODERATE = Speed(step=0.002, sentence=0.0008)
SLOW = Speed(step=0.004, sentence=0.0015)


def overloaded(server: VirtualServer, speed: Speed, multiple: float, sentences: int, *deadlines: float) -> Tally:
    """Offer so many times what full batches can do; return what became of it after ten seconds."""
    rate = multiple * speed.capacity(batch=32, tokens=TOKENS, workers=2) / sentences
    return server.run(
        rate=rate, sentences=sentences, tokens=TOKENS, deadlines=deadlines, seconds=OVERLOAD_SECONDS, warm=WARM
    )


def goodput(tally: Tally, speed: Speed, sentences: int) -> float:
    """Return the answered sentences as a share of what full batches could do."""
    return sentences * tally.answered / (OVERLOAD_SECONDS - WARM) / speed.capacity(batch=32, tokens=TOKENS, workers=2)


@pytest.mark.parametrize(
    ("speed", "sentences", "multiple"), [(MODERATE, 1, 2), (MODERATE, 8, 13), (SLOW, 1, 13), (SLOW, 8, 2)]
)
async def test_mixed_deadlines_keep_the_server_busy_with_what_is_answered(
    monkeypatch: pytest.MonkeyPatch, model: LoadedModel, speed: Speed, sentences: int, multiple: float
) -> None:
    tally = overloaded(VirtualServer(monkeypatch, model, speed), speed, multiple, sentences, 2, 5, 10)
    assert tally.refused
    assert tally.expired_share <= 0.03
    assert 0.7 <= statistics.median(tally.told_by_true) <= 1.3
    assert goodput(tally, speed, sentences) >= 0.9


@pytest.mark.parametrize(("speed", "sentences", "least"), [(SLOW, 1, 0.7), (MODERATE, 8, 0.5)])
async def test_deadlines_too_short_for_full_batches_are_met_with_smaller_ones(
    monkeypatch: pytest.MonkeyPatch, model: LoadedModel, speed: Speed, sentences: int, least: float
) -> None:
    tally = overloaded(VirtualServer(monkeypatch, model, speed), speed, 7, sentences, 0.4)
    assert tally.expired_share <= 0.06
    assert goodput(tally, speed, sentences) >= least


MIDDLING = Speed(step=0.001, sentence=0.0003)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, repository: Path, metrics: Metrics) -> VirtualServer:
    return VirtualServer(monkeypatch, LoadedModel(repository / "small" / "1", metrics), MIDDLING)


def endless(queued: QueuedSentence) -> int:
    """Return the steps of a sentence; far more than predicted for one caller."""
    return 1000 if queued.request.flow.caller.share == "endless" else queued.target_tokens


def refused(server: VirtualServer, *, deadline: float = 2.0) -> int:
    """Serve a light load of a caller with deadlines; return how many of its requests are not answered in time."""
    tally = server.run(rate=50, sentences=1, tokens=LENGTH, deadlines=[deadline], seconds=4.0, warm=0.0)
    assert tally.answered
    return tally.refused + tally.expired


async def test_a_caller_that_hangs_up_says_nothing_of_the_speed_of_the_server(server: VirtualServer) -> None:
    server.steps_of = endless
    server.attack("busy", [LENGTH] * 4, until=server.now + 4.0)
    for number in range(8):
        server.at(server.now + number / 4, lambda: server.hang_up("endless", 2, after=0.5))
    assert refused(server, deadline=0.15) == 0


@pytest.mark.parametrize("deadline", [math.inf, 1.0])
async def test_searches_without_an_end_say_nothing_of_those_of_others(server: VirtualServer, deadline: float) -> None:
    server.steps_of = endless
    until = server.now + 4.0
    if math.isinf(deadline):
        server.attack("endless", [2] * 16, until=until)
    else:
        server.serial("endless", 2, deadline=deadline, until=until)
    assert refused(server) == 0


BUNDLED = Speed(step=0.0003, sentence=0.000075, joining=0.001, joining_token=0.00003)
"""About what the bundled model takes on one core."""


def served(
    monkeypatch: pytest.MonkeyPatch, model: LoadedModel, *, rate: float, workers: int = 1, at_once: bool = False
) -> VirtualServer:
    """Serve sentences that come at random times; at_once lets each join at the next step."""
    with monkeypatch.context() as patch:
        if at_once:
            patch.setattr(WorkerState, "record_joining", lambda *_: None)
        server = VirtualServer(patch, model, BUNDLED, workers=workers)
        draw = random.Random(2)
        server.arrivals([draw.randrange(8, 40) for _ in range(2000)], rate=rate)
        server.go_on()
    assert len(server.taken) == 2000
    return server


@pytest.mark.parametrize(("rate", "workers"), [(240, 1), (480, 2)])
async def test_waiting_for_company_shortens_waits_when_the_server_is_busy(
    monkeypatch: pytest.MonkeyPatch, model: LoadedModel, rate: float, workers: int
) -> None:
    ours = served(monkeypatch, model, rate=rate, workers=workers)
    hasty = served(monkeypatch, model, rate=rate, workers=workers, at_once=True)
    assert ours.joinings < 0.8 * hasty.joinings
    assert statistics.median(ours.taken) < 0.95 * statistics.median(hasty.taken)
    assert statistics.quantiles(ours.taken, n=20)[-1] < 0.9 * statistics.quantiles(hasty.taken, n=20)[-1]


async def test_it_costs_little_when_the_server_is_not_busy(monkeypatch: pytest.MonkeyPatch, model: LoadedModel) -> None:
    ours, hasty = served(monkeypatch, model, rate=40), served(monkeypatch, model, rate=40, at_once=True)
    assert statistics.median(ours.taken) < 1.06 * statistics.median(hasty.taken)


def test_joining_costs_the_mean_of_recent_runs_and_hardly_more_after_an_interrupted_one() -> None:
    worker = WorkerState()
    for seconds in [0.1] * 100 + [0.001, 0.003] * 300 + [5.0]:
        worker.record_joining(seconds)
    assert worker.joining_seconds == pytest.approx(0.002, rel=0.1)


async def test_a_newcomer_waits_as_long_as_it_costs_others(monkeypatch: pytest.MonkeyPatch, model: LoadedModel) -> None:
    server = VirtualServer(monkeypatch, model, BUNDLED, workers=1)
    server.scheduler.charge(0, COMMON, 0.002, is_joining=True)
    assert [len(joins) for joins in joining(server, 10, 10)] == [2]
    assert joining(server, 10) == []
    decision = server.scheduler.take(0)
    assert decision is not None
    assert decision.max_seconds == pytest.approx(2 * 0.002)
    server.now += 0.003
    assert joining(server, 10) == []
    # The first has waited for 3 ms; after another half they have waited for 4 together.
    decision = server.scheduler.take(0)
    assert decision is not None
    assert decision.max_seconds == pytest.approx(0.0005)
    server.now += decision.max_seconds + 1e-9
    assert [len(joins) for joins in joining(server)] == [2]


def joining(server: VirtualServer, *lengths: int) -> list[list[QueuedSentence]]:
    """Submit sentences, and return those that join, by tier."""
    if lengths:
        server.scheduler.submit(server._request(lengths, math.inf))
    decision = server.scheduler.take(0)
    return [list(joins) for joins in decision.joins.values()] if decision else []
