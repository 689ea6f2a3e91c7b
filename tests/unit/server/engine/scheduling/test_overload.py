"""Load in virtual time: admission, estimates that all callers share, and when sentences join a running batch."""

from __future__ import annotations

import math
import random
import statistics
from pathlib import Path

import pytest
from tests.unit.server.engine.scheduling.virtual_server import Speed, Tally, VirtualServer

from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.queue import COMMON
from xuanzang.server.engine.scheduling.request import QueuedSentence
from xuanzang.server.engine.scheduling.state import WorkerState
from xuanzang.server.metrics import Metrics

TOKENS = 20
SECONDS, WARM = 25.0, 10.0

# A full batch of 32 takes 0.55 s, and 1 s for 20 tokens.
MODERATE = Speed(step=0.002, sentence=0.0008)
SLOW = Speed(step=0.004, sentence=0.0015)


def overloaded(server: VirtualServer, speed: Speed, multiple: float, sentences: int, *deadlines: float) -> Tally:
    """Offer so many times what full batches can do; return what became of it after ten seconds."""
    rate = multiple * speed.capacity(batch=32, tokens=TOKENS, workers=2) / sentences
    return server.run(rate=rate, sentences=sentences, tokens=TOKENS, deadlines=deadlines, seconds=SECONDS, warm=WARM)


def goodput(tally: Tally, speed: Speed, sentences: int) -> float:
    """Return the answered sentences as a share of what full batches could do."""
    return sentences * tally.answered / (SECONDS - WARM) / speed.capacity(batch=32, tokens=TOKENS, workers=2)


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


SPEED = Speed(step=0.001, sentence=0.0003)
LENGTH = 12


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, repository: Path, metrics: Metrics) -> VirtualServer:
    return VirtualServer(monkeypatch, LoadedModel(repository / "small" / "1", metrics), SPEED)


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
