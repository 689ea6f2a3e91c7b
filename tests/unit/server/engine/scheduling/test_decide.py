"""Decisions as values: what a worker does next, from a state that is put together by hand."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from functools import partial

import pytest
from opcodes import opcodes_of
from tests.unit.server.engine.scheduling.virtual_server import free_request

from xuanzang.server.engine.scheduling.decide import Decision, _Room, _taken, decide
from xuanzang.server.engine.scheduling.queue import COMMON, LIGHT, TIERS, FairQueue
from xuanzang.server.engine.scheduling.request import Request
from xuanzang.server.engine.scheduling.state import State
from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.engine.types import CallerId


def asked(caller: str, sentences: int) -> Request:
    return free_request(caller, [10] * sentences)


def state_of(requests: Sequence[Request], *, workers: int = 1) -> State:
    state = State(workers=workers, settings=EngineSettings(max_join_source_tokens=10**6), max_cache_bytes=10**9)
    for request in requests:
        state.queue.open(request.flow.caller, request.places)
        state.queue.add(request.sentences)
    return state


def joining(decision: Decision) -> dict[int, dict[str, int]]:
    """Return the sentences that join, by tier and share."""
    return {
        tier: dict(Counter(queued.request.flow.caller.share for queued in joins))
        for tier, joins in decision.joins.items()
    }


@pytest.mark.parametrize("names", ["{}", "address/{}"])
async def test_many_callers_who_ask_for_little_are_in_one_batch(names: str) -> None:
    state = state_of([asked(names.format(number), 1 + number % 3) for number in range(20)])
    decision = decide(state, 0, 1.0)
    assert decision.step == COMMON
    assert {tier: sum(shares.values()) for tier, shares in joining(decision).items()} == {COMMON: 32}


@pytest.mark.parametrize("light", ["light", "many/light"])
async def test_beside_a_caller_over_its_share_others_have_a_batch_of_their_own(light: str) -> None:
    state = state_of([asked("many/heavy", 64), asked(light, 1)])
    decision = decide(state, 0, 1.0)
    assert decision.step == LIGHT
    assert joining(decision)[LIGHT] == {light.split("/", maxsplit=1)[0]: 1}


@pytest.mark.parametrize("names", ["{}", "address/{}"])
@pytest.mark.parametrize(("heavy", "light"), [(20, 64), (47, 1), (4, 1), (1, 64), (3, 3)])
def test_a_heavy_caller_has_an_equal_part_of_the_time_beside_light_ones(names: str, heavy: int, light: int) -> None:
    queue = FairQueue(workers=2)
    for number in range(heavy + light):
        queue.open(CallerId(*names.format(number).split("/")), 9 if number < heavy else 1)
    tiers = [queue.tier_of(CallerId(*names.format(number).split("/"))) for number in range(heavy + light)]
    assert tiers == [COMMON] * heavy + [LIGHT] * light
    of_heavy = 1 / (1 + queue.light_weight)
    assert of_heavy == pytest.approx(heavy / (heavy + max(8, light)))


async def test_names_of_one_address_are_over_its_share_together_and_have_the_time_of_one_caller() -> None:
    state = state_of([*(asked(f"address/{number}", 1) for number in range(700)), asked("light", 1)])
    assert joining(decide(state, 0, 1.0))[LIGHT] == {"light": 1}
    assert state.queue.light_weight == 8


CROWDS = {
    "names of a heavy address": ("crowd/{}", 8, "light", 1),
    "light names beside a heavy one": ("crowd/{}", 1, "crowd/heavy", 20),
    "light addresses beside a heavy one": ("{}", 1, "heavy", 20),
}


def crowded(crowd: str, count: int) -> State:
    names, sentences, other, of_other = CROWDS[crowd]
    return state_of([*(asked(names.format(number), sentences) for number in range(count)), asked(other, of_other)])


@pytest.mark.parametrize("crowd", CROWDS)
async def test_a_decision_takes_no_longer_with_more_callers_of_the_other_tier(crowd: str) -> None:
    def cost(count: int, tier: int) -> int:
        state = crowded(crowd, count)
        return opcodes_of(partial(_taken, state, 0, tier, _Room(state, 0, tier), state.budget.copy()))

    tier = LIGHT if "names of" in crowd else COMMON
    assert cost(400, tier) <= 1.5 * cost(20, tier)


@pytest.mark.parametrize("crowd", CROWDS)
async def test_the_places_that_wait_are_known_without_a_look_at_each_caller(crowd: str) -> None:
    few, many = (crowded(crowd, count) for count in (20, 400))
    assert opcodes_of(partial(many.queue.waiting, COMMON)) == opcodes_of(partial(few.queue.waiting, COMMON))


@pytest.mark.parametrize("seed", range(10))
async def test_the_places_that_wait_are_those_of_the_waiting_sentences_in_their_tiers(seed: int) -> None:
    draw, state, waiting = random.Random(seed), state_of([]), list[Request]()
    for _ in range(120):
        if waiting and draw.random() < 0.4:
            request = waiting.pop(draw.randrange(len(waiting)))
            state.queue.remove(request.sentences)
            state.queue.close(request.flow.caller, request.places)
        elif waiting and draw.random() < 0.3:
            state.queue.remove(draw.choice(waiting).sentences[:2])
        else:
            waiting.append(asked(f"{draw.choice('ab')}/{draw.choice('xyz')}", draw.choice((1, 1, 3, 12, 30))))
            state.queue.open(waiting[-1].flow.caller, waiting[-1].places)
            state.queue.add(waiting[-1].sentences)
        for tier in TIERS:
            turns = list(state.queue.in_turn(tier, lambda _: True))
            assert {state.queue.tier_of(queued.request.flow.caller) for queued in turns} <= {tier}
            assert state.queue.waiting(tier) == sum(queued.places for queued in turns)
        assert sum(map(state.queue.waiting, TIERS)) == state.queue.places


async def test_a_decision_changes_nothing() -> None:
    state = state_of([asked("many", 64), asked("light", 2), asked("other/name", 3)], workers=2)

    def queue() -> tuple[int, int, int, bool]:
        return state.queue.count, state.queue.cost, state.queue.places, state.queue.is_split

    before, first = queue(), decide(state, 0, 1.0)
    assert decide(state, 0, 1.0)[:-1] == first[:-1]
    assert queue() == before
    assert all(worker.is_idle for worker in state.workers)
