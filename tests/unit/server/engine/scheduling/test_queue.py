"""Turns of callers, and decisions from a state that is put together by hand."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opcodes import opcodes_of
from tests.unit.server.engine.scheduling.virtual_server import free_request

from xuanzang.server.engine.scheduling.decide import Decision, _Room, _taken, dealt, decide
from xuanzang.server.engine.scheduling.queue import COMMON, LIGHT, TIERS, FairQueue
from xuanzang.server.engine.scheduling.request import QueuedSentence, Request
from xuanzang.server.engine.scheduling.state import State
from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.engine.types import CallerId


def queued(caller: str, lengths: Sequence[int]) -> list[QueuedSentence]:
    return list(free_request(caller, lengths).sentences)


def submit(queue: FairQueue, sentences: Sequence[QueuedSentence], *, first: bool = False) -> None:
    queue.open(sentences[0].request.flow.caller, sum(one.places for one in sentences))
    queue.add(sentences, first=first)


def fill(backlogs: Mapping[str, Sequence[int]]) -> FairQueue:
    """Fill a queue for more workers than any caller could fill, so that all are decoded together."""
    queue = FairQueue(workers=10_000)
    for caller, lengths in backlogs.items():
        submit(queue, queued(caller, lengths))
    return queue


def take(queue: FairQueue, *, sentences: int = 1) -> list[QueuedSentence]:
    """Remove the sentences that a worker takes, and charge their callers."""
    taken = list(islice(queue.in_turn(COMMON, lambda _: True), sentences))
    assert queue.remove(taken) == taken
    for one in taken:
        queue.charge(one.request.flow.caller, one.cost)
    return taken


def take_all(queue: FairQueue, at_once: int = 1) -> list[QueuedSentence]:
    taken = list[QueuedSentence]()
    while queue.count:
        taken += take(queue, sentences=at_once)
    return taken


async def test_names_of_one_share_take_turns_within_it() -> None:
    queue = fill({"other": [20] * 100, "address/a": [20] * 100, "address/b": [20] * 100})
    served = Counter(one.request.flow.caller for one in take_all(queue)[:100])
    assert abs(served[CallerId("other", "")] - 50) <= 1
    assert abs(served[CallerId("address", "a")] - 25) <= 1


async def test_a_share_that_comes_back_has_no_claim_to_the_time_of_before() -> None:
    queue = fill({"busy": [20] * 200, "back": [20]})
    take(queue, sentences=100)
    submit(queue, queued("back", [20] * 100))
    shares = [one.request.flow.caller.share for one in take_all(queue)[:40]]
    assert abs(shares.count("back") - 20) <= 1


async def test_a_caller_pays_for_the_tokens_that_its_sentences_took() -> None:
    queue = fill({"long": [20] * 100, "short": [20] * 100})
    first = take(queue, sentences=20)
    for one in first:
        if one.request.flow.caller.share == "long":
            queue.charge(one.request.flow.caller, 3 * one.cost)
    served = Counter(one.request.flow.caller.share for one in first + take_all(queue)[:60])
    assert served["long"] < served["short"]


backlogs = st.dictionaries(
    st.sampled_from("abcde"), st.lists(st.integers(1, 300), min_size=1, max_size=40), min_size=1, max_size=5
)


@given(backlogs, st.integers(1, 8))
async def test_everything_is_taken_once_in_the_order_of_arrival(waiting: dict[str, list[int]], at_once: int) -> None:
    queue = fill(waiting)
    assert queue.count == sum(map(len, waiting.values()))
    assert queue.cost == sum(2 * sum(lengths) for lengths in waiting.values())
    taken = take_all(queue, at_once)
    assert queue.cost == queue.count == 0
    for lengths in waiting.values() if len(waiting) == 1 else ():
        assert [one.source_tokens for one in taken] == list(lengths)


@given(backlogs)
async def test_shares_of_waiting_callers_differ_by_at_most_a_sentence(waiting: dict[str, list[int]]) -> None:
    queue = fill(waiting)
    left = Counter({caller: len(lengths) for caller, lengths in waiting.items()})
    served = Counter(dict.fromkeys(waiting, 0))
    longest = 2 * max(max(lengths) for lengths in waiting.values())
    for one in take_all(queue):
        served[one.request.flow.caller.share] += one.cost
        left[one.request.flow.caller.share] -= 1
        shares = [served[caller] for caller in waiting if left[caller]]
        if len(shares) == len(waiting):
            assert max(shares) - min(shares) <= longest


@given(st.lists(st.integers(1, 300), max_size=40), st.integers(1, 5))
def test_what_is_dealt_ends_together(costs: list[int], workers: int) -> None:
    share = dealt(costs, workers)
    assert len(set(share)) == len(share) <= -(-len(costs) // workers)
    left = [cost for index, cost in enumerate(costs) if index not in share]
    assert sum(costs[index] for index in share) * workers <= sum(costs) + workers * max(costs, default=0)
    assert len(left) == len(costs) - len(share)


async def test_removed_sentences_are_neither_taken_nor_counted() -> None:
    queue = fill({})
    first, second, third = queued("a", [1, 2, 3])
    submit(queue, [first, second, third])
    assert queue.remove([second, second]) == [second]
    assert (queue.count, queue.cost, queue.backlog("a")) == (2, 8, 8)
    assert take_all(queue) == [first, third]
    assert queue.remove([first]) == []


@pytest.mark.parametrize(
    ("caller", "cost", "before"), [("new", 10, 10 + 10 + 6), ("a", 4, 20 + 24 + 6), ("b", 1000, 100 + 20 + 6)]
)
async def test_before_a_request_go_its_caller_and_as_much_of_each_other(caller: str, cost: int, before: int) -> None:
    queue = fill({"a": [10], "b": [50], "c": [3]})
    assert queue.cost_before(CallerId(caller), cost) == before


@given(
    st.dictionaries(st.sampled_from(["a", "b/1", "b/2", "b/3", "c"]), st.lists(st.integers(1, 40), min_size=1)),
    st.sampled_from(["a", "b/1", "b/2", "b/9", "d"]),
    st.integers(1, 500),
)
async def test_work_before_one_is_never_underestimated(backlogs: dict[str, list[int]], caller: str, cost: int) -> None:
    asking = CallerId(*caller.split("/"))
    own = 2 * sum(backlogs.get(caller, ()))
    shares, names = Counter[str](), {CallerId(*name.split("/")): 2 * sum(each) for name, each in backlogs.items()}
    for name, each in names.items():
        shares[name.share] += each
    ahead = own + sum(
        min(each, own + cost) for name, each in names.items() if name.share == asking.share and name != asking
    )
    exact = ahead + sum(min(each, ahead + cost) for share, each in shares.items() if share != asking.share)
    assert exact <= fill(backlogs).cost_before(asking, cost) <= 3 * exact + cost


async def test_estimates_take_no_longer_with_more_names_in_the_queue() -> None:
    few, many = (fill({f"a/{number}": [number % 7 + 1] for number in range(count)}) for count in (10, 700))
    works = [opcodes_of(partial(queue.cost_before, CallerId("b", "new"), 8)) for queue in (few, many)]
    assert works[0] == works[1]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=8))
async def test_the_second_parts_of_requests_go_first_in_the_order_of_arrival(parts: list[int]) -> None:
    queue, first = fill({"a": [7] * 5}), list[QueuedSentence]()
    for length in parts:
        sentences = queued("a", [length] * length)
        submit(queue, sentences, first=True)
        first += sentences
    taken = take_all(queue)
    assert taken[: len(first)] == first
    assert len(taken) == len(first) + 5


@pytest.mark.parametrize("callers", [[f"{share}" for share in "abcd"], [f"one/{name}" for name in "abcd"]])
async def test_callers_that_come_back_after_each_sentence_do_not_pass_one_who_waits(callers: list[str]) -> None:
    last, queue = callers[-1], fill({caller: [10] for caller in callers})
    queue.charge(CallerId(*last.split("/")), 5)
    turns = []
    for _ in range(len(callers) + 1):
        [one] = take(queue)
        turns.append("/".join(filter(None, one.request.flow.caller)))
        submit(queue, queued(turns[-1], [10]))
    assert last in turns


async def test_crowds_of_refused_names_do_not_let_anybody_pass_one_who_waits() -> None:
    queue = fill({"back": [10], "waits": [10]})
    [first] = take(queue)
    last, returns = ("waits", "back") if first.request.flow.caller.share == "back" else ("back", "waits")
    queue.charge(CallerId(returns), 1000)
    queue.close(CallerId(returns), first.places)
    for number in range(10_000):
        queue.open(CallerId("crowd", str(number)), 1)
        queue.close(CallerId("crowd", str(number)), 1)
    submit(queue, queued(returns, [10]))
    assert [one.request.flow.caller.share for one in take_all(queue)] == [last, returns]


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
