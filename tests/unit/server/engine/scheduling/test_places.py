"""Places in the running batches are shared, in virtual time: nobody waits for what another caller has too much of."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.server.engine.scheduling.virtual_server import GREEDY, Speed, VirtualServer, held_of

from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.places import TIERS
from xuanzang.server.engine.types import DecodingOptions
from xuanzang.server.metrics import Metrics

SECONDS = 2.5
LENGTH = 12
# A step of a full batch takes nine times as long as one of a single sentence.
SPEED = Speed(step=0.0008, sentence=0.0002)
WIDE = dataclasses.replace(GREEDY, beam_size=16)
LONG = 150
DEADLINE = 5.0


@pytest.fixture
def model(repository: Path, metrics: Metrics) -> LoadedModel:
    return LoadedModel(repository / "small" / "1", metrics)


def percentile(seconds: list[float], share: float) -> float:
    return sorted(seconds)[math.ceil(share * len(seconds)) - 1]


MakeServer = Callable[..., VirtualServer]


@pytest.fixture
def make_server(monkeypatch: pytest.MonkeyPatch, model: LoadedModel) -> MakeServer:
    return lambda workers: VirtualServer(monkeypatch, model, SPEED, workers=workers)


def measured(server: VirtualServer, *attackers: tuple[list[int], DecodingOptions]) -> list[float]:
    """Return the seconds of single sentences beside attackers, who come first."""
    until = server.now + SECONDS
    for number, (lengths, options) in enumerate(attackers):
        server.attack(f"attacker {number}", lengths, until=until, options=options)
    taken = server.serial("one", LENGTH, deadline=DEADLINE, until=until)
    server.go_on()
    return taken


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize(
    "attackers",
    [
        pytest.param([([LONG] * 64, GREEDY)], id="long sentences"),
        pytest.param([([LONG] * 1000, GREEDY)], id="a thousand"),
        pytest.param([([LONG] * 64, WIDE)], id="wide beams"),
        pytest.param([([3] * 64, GREEDY)], id="short sentences"),
        pytest.param([([LONG] * 64, GREEDY)] * 4, id="four callers"),
        pytest.param([([LENGTH * 3] * 4, GREEDY)] * 6, id="six callers of four sentences"),
        pytest.param([([LONG] * 64, WIDE), ([3] * 500, GREEDY)], id="wide and short"),
    ],
)
async def test_a_caller_of_single_sentences_hardly_notices_one_who_takes_all_it_can_get(
    make_server: MakeServer, workers: int, attackers: list[tuple[list[int], DecodingOptions]]
) -> None:
    calm, beside = measured(make_server(workers)), measured(make_server(workers), *attackers)
    assert percentile(beside, 0.99) <= 3 * percentile(calm, 0.99)
    # Nothing that is admitted expires: a call that does would end the caller's row.
    assert sum(beside) + 0.003 * len(beside) >= SECONDS - 3 * percentile(calm, 0.99)


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
async def test_a_newcomer_with_as_much_to_do_gets_its_share_of_the_places_at_once(
    make_server: MakeServer, workers: int
) -> None:
    server = make_server(workers)
    take = server.scheduler.take
    server.scheduler.submit(server._request([LENGTH] * 200, math.inf, caller="a"))
    assert [len(take(worker, idle_seconds=0) or []) for worker in range(workers)] == [32] * workers
    second = server._request([LENGTH] * 200, math.inf, caller="b")
    server.scheduler.submit(second)
    for worker in range(workers):
        assert [queued.request for queued in take(worker, idle_seconds=0) or []] == [second] * 16
        # The batch grows no further, however many more wait.
        assert take(worker, idle_seconds=0) == []
    third = server._request([LENGTH] * 200, math.inf, caller="c")
    server.scheduler.submit(third)
    for worker in range(workers):
        assert {queued.request for queued in take(worker, idle_seconds=0) or []} == {third}


async def test_a_lone_caller_has_all_places_and_steps_of_one_batch(make_server: MakeServer) -> None:
    server = make_server(1)
    server.scheduler.submit(server._request([LENGTH] * 200, math.inf, caller="lone"))
    taken = server.scheduler.take(0, idle_seconds=0) or []
    assert len(taken) == 32
    assert len({queued.tier for queued in taken}) == 1


async def test_places_are_counted_by_tier_as_sentences_wait_and_are_taken(make_server: MakeServer) -> None:
    server = make_server(1)
    scheduler = server.scheduler

    def counts() -> list[tuple[int, int]]:
        return [(scheduler.held_places(tier), scheduler.waiting_places(tier)) for tier in range(len(TIERS))]

    requests = [
        server._request([LENGTH] * count, math.inf, caller=caller, options=options)
        for caller, count, options in (("one", 1, GREEDY), ("few", 8, GREEDY), ("many", 64, WIDE))
    ]
    for request in requests:
        scheduler.submit(request)
    assert counts() == [(0, 1), (0, 0), (0, 8), (0, 64 * 4)]
    scheduler.take(0, idle_seconds=0)
    assert counts() == [(1, 0), (0, 0), (0, 8), (0, 64 * 4)]
    for request in requests:
        scheduler.close(request, "cancelled")
    scheduler.report(0, held=held_of(()), uses={})
    assert counts() == [(0, 0)] * len(TIERS)
