"""Estimates that all callers share, in virtual time: no caller makes the server refuse others."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from tests.unit.server.engine.scheduling.virtual_server import Speed, VirtualServer

from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.request import QueuedSentence
from xuanzang.server.metrics import Metrics

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
async def test_searches_that_do_not_find_their_end_say_nothing_of_those_of_others(
    server: VirtualServer, deadline: float
) -> None:
    server.steps_of = endless
    until = server.now + 4.0
    if math.isinf(deadline):
        server.attack("endless", [2] * 16, until=until)
    else:
        server.serial("endless", 2, deadline=deadline, until=until)
    assert refused(server) == 0
