"""Turns of callers: tests have an event loop, where requests belong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opcodes import opcodes_of
from tests.unit.server.engine.scheduling.virtual_server import free_request

from xuanzang.server.engine.scheduling.decide import dealt
from xuanzang.server.engine.scheduling.queue import COMMON, FairQueue
from xuanzang.server.engine.scheduling.request import QueuedSentence
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


async def test_a_lone_sentence_waits_for_one_turn_of_a_caller_with_a_thousand() -> None:
    queue = fill({"many": [20] * 1000})
    take(queue, sentences=7)
    submit(queue, queued("one", [20]))
    callers = [taken.request.flow.caller.share for taken in take_all(queue)]
    assert callers.index("one") <= 1
    assert len(callers) == 994


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
