"""Decisions as values: what a worker does next, from a state that is put together by hand."""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import pytest
from opcodes import opcodes_of
from search_options import search_options
from tests.unit.server.engine.scheduling.virtual_server import FreeModel, Unread

from xuanzang.server.engine.decoding.hypotheses import Sentence
from xuanzang.server.engine.scheduling.decide import Decision, _Room, _taken, decide
from xuanzang.server.engine.scheduling.queue import COMMON, LIGHT, TIERS, FairQueue
from xuanzang.server.engine.scheduling.request import CallContext, Request
from xuanzang.server.engine.scheduling.state import State
from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.engine.types import CallerId


def asked(caller: str, sentences: int, *, length: int = 10) -> Request:
    """Return a request of greedy sentences by a caller, as share/name."""
    options = search_options(beam_size=1, max_target_length=10_000)
    searched = [Sentence(source_ids=[5] * length, options=options) for _ in range(sentences)]

    async def make() -> Request:
        return Request(CallContext(model=FreeModel(), caller=CallerId(*caller.split("/"))), searched, Unread())

    return asyncio.run(make())


def state_of(requests: Sequence[Request], *, workers: int = 1) -> State:
    state = State(workers=workers, settings=EngineSettings(max_join_source_tokens=10**6), max_cache_bytes=10**9)
    for request in requests:
        state.queue.open(request.flow.caller, request.places)
        state.queue.add(request.sentences)
    return state


def joining(decision: Decision) -> dict[int, dict[str, int]]:
    """Return the sentences that join, by tier and share."""
    counts: dict[int, dict[str, int]] = {}
    for tier, joins in decision.joins.items():
        of_tier = counts.setdefault(tier, {})
        for queued in joins:
            share = queued.request.flow.caller.share
            of_tier[share] = of_tier.get(share, 0) + 1
    return counts


@pytest.mark.parametrize("names", ["{}", "address/{}"])
def test_many_callers_who_ask_for_little_are_in_one_batch(names: str) -> None:
    state = state_of([asked(names.format(number), 1 + number % 3) for number in range(20)])
    decision = decide(state, 0, 1.0)
    assert decision.step == COMMON
    assert {tier: sum(shares.values()) for tier, shares in joining(decision).items()} == {COMMON: 32}


@pytest.mark.parametrize("light", ["light", "many/light"])
def test_beside_a_caller_over_its_share_others_have_a_batch_of_their_own(light: str) -> None:
    state = state_of([asked("many/heavy", 64), asked(light, 1)])
    decision = decide(state, 0, 1.0)
    assert decision.step == LIGHT
    assert joining(decision)[LIGHT] == {light.split("/", maxsplit=1)[0]: 1}


@pytest.mark.parametrize("names", ["{}", "address/{}"])
@pytest.mark.parametrize(("heavy", "light"), [(20, 64), (47, 1), (4, 1), (1, 64), (3, 3)])
def test_a_heavy_caller_has_an_equal_part_of_the_time_beside_eight_or_more_light_ones(
    names: str, heavy: int, light: int
) -> None:
    queue = FairQueue(workers=2)
    for number in range(heavy + light):
        queue.open(CallerId(*names.format(number).split("/")), 9 if number < heavy else 1)
    tiers = [queue.tier_of(CallerId(*names.format(number).split("/"))) for number in range(heavy + light)]
    assert tiers == [COMMON] * heavy + [LIGHT] * light
    of_heavy = 1 / (1 + queue.light_weight)
    assert of_heavy == pytest.approx(heavy / (heavy + max(8, light)))


def test_names_of_a_heavy_address_have_the_time_of_one_caller() -> None:
    queue = FairQueue(workers=2)
    for number in range(700):
        queue.open(CallerId("address", str(number)), 9)
    queue.open(CallerId("light"), 1)
    assert queue.light_weight == 8


def test_names_of_one_address_are_over_the_share_of_the_address_together() -> None:
    state = state_of([*(asked(f"address/{number}", 1) for number in range(64)), asked("light", 1)])
    assert joining(decide(state, 0, 1.0))[LIGHT] == {"light": 1}


CROWDS: Mapping[str, Callable[[int], list[Request]]] = {
    "names of a heavy address": lambda count: [
        *(asked(f"crowd/{number}", 8) for number in range(count)),
        asked("light", 1),
    ],
    "light names beside a heavy one": lambda count: [
        *(asked(f"crowd/{number}", 1) for number in range(count)),
        asked("crowd/heavy", 20),
    ],
    "light addresses beside a heavy one": lambda count: [
        *(asked(str(number), 1) for number in range(count)),
        asked("heavy", 20),
    ],
}


@pytest.mark.parametrize("crowd", CROWDS)
def test_a_decision_takes_no_longer_with_more_callers_of_the_other_tier(crowd: str) -> None:
    def cost(count: int, tier: int) -> int:
        state = state_of(CROWDS[crowd](count))
        return opcodes_of(partial(_taken, state, 0, tier, _Room(state, 0, tier), state.budget.copy()))

    tier = LIGHT if "names of" in crowd else COMMON
    assert cost(400, tier) <= 1.5 * cost(20, tier)


@pytest.mark.parametrize("crowd", CROWDS)
def test_the_places_that_wait_are_known_without_a_look_at_each_caller(crowd: str) -> None:
    few, many = (state_of(CROWDS[crowd](count)) for count in (20, 400))
    assert opcodes_of(partial(many.queue.waiting, COMMON)) == opcodes_of(partial(few.queue.waiting, COMMON))


@pytest.mark.parametrize("seed", range(10))
def test_the_places_that_wait_are_those_of_the_waiting_sentences_in_their_tiers(seed: int) -> None:
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


def test_a_decision_changes_nothing() -> None:
    requests = [asked("many", 64), asked("light", 2), asked("other/name", 3)]
    state = state_of(requests, workers=2)
    before = copy.deepcopy((state.queue.count, state.queue.cost, state.queue.places, state.queue.is_split))
    first = decide(state, 0, 1.0)
    assert decide(state, 0, 1.0)[:-1] == first[:-1]
    assert (state.queue.count, state.queue.cost, state.queue.places, state.queue.is_split) == before
    assert all(worker.is_idle for worker in state.workers)


def test_the_places_of_a_batch_are_shared_among_callers_who_wait() -> None:
    state = state_of([asked(caller, 64, length=10) for caller in "abcd"])
    shares = joining(decide(state, 0, 1.0))[COMMON]
    assert set(shares) == set("abcd")
    assert sum(shares.values()) == 32
