"""When sentences join a running batch: measured in virtual time, on the real scheduler."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from tests.unit.server.engine.scheduling.virtual_server import Speed, VirtualServer

from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.queue import COMMON
from xuanzang.server.engine.scheduling.request import QueuedSentence
from xuanzang.server.engine.scheduling.state import WorkerState

SPEED = Speed(step=0.0003, sentence=0.000075, joining=0.001, joining_token=0.00003)
"""About what the bundled model takes on one core."""


def served(
    monkeypatch: pytest.MonkeyPatch, model: LoadedModel, *, rate: float, workers: int = 1, at_once: bool = False
) -> VirtualServer:
    """Serve sentences that come at random times; at_once lets each join at the next step."""
    with monkeypatch.context() as patch:
        if at_once:
            patch.setattr(WorkerState, "record_joining", lambda *_: None)
        server = VirtualServer(patch, model, SPEED, workers=workers)
        draw = random.Random(2)
        server.arrivals([draw.randrange(8, 40) for _ in range(3000)], rate=rate)
        server.go_on()
    assert len(server.taken) == 3000
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


async def test_a_newcomer_waits_until_its_wait_equals_what_joining_costs_the_others(
    monkeypatch: pytest.MonkeyPatch, model: LoadedModel
) -> None:
    server = VirtualServer(monkeypatch, model, SPEED, workers=1)
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
