"""Overload in virtual time: what is admitted is answered, and the server stays busy."""

from __future__ import annotations

import statistics

import pytest
from tests.unit.server.engine.scheduling.virtual_server import Speed, Tally, VirtualServer

from xuanzang.server.engine.models.loaded import LoadedModel

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


@pytest.mark.parametrize("speed", [MODERATE, SLOW], ids=["moderate", "slow"])
@pytest.mark.parametrize("sentences", [1, 8])
@pytest.mark.parametrize("multiple", [2, 13])
async def test_mixed_deadlines_keep_the_server_busy_with_what_is_answered(
    monkeypatch: pytest.MonkeyPatch, model: LoadedModel, speed: Speed, sentences: int, multiple: float
) -> None:
    tally = overloaded(VirtualServer(monkeypatch, model, speed), speed, multiple, sentences, 2, 5, 10)
    assert tally.refused
    assert tally.expired_share <= 0.03
    assert 0.7 <= statistics.median(tally.told_by_true) <= 1.3
    assert goodput(tally, speed, sentences) >= 0.9


@pytest.mark.parametrize(("sentences", "least"), [(1, 0.7), (8, 0.5)])
@pytest.mark.parametrize("speed", [MODERATE, SLOW], ids=["moderate", "slow"])
async def test_deadlines_too_short_for_full_batches_are_met_with_smaller_ones(
    monkeypatch: pytest.MonkeyPatch, model: LoadedModel, speed: Speed, sentences: int, least: float
) -> None:
    tally = overloaded(VirtualServer(monkeypatch, model, speed), speed, 7, sentences, 0.4)
    assert tally.expired_share <= 0.06
    assert goodput(tally, speed, sentences) >= least
