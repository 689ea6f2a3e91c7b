"""Turns of callers: every test builds its requests in an event loop of its own, where requests belong."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xuanzang.server.engine.decoding.hypotheses import SearchOptions, Sentence
from xuanzang.server.engine.scheduling.fair_queue import FairQueue, Sweep
from xuanzang.server.engine.scheduling.request import QueuedSentence, Request, Terms

QUANTUM = 256


def queued(caller: str, lengths: Sequence[int]) -> list[QueuedSentence]:
    """Return greedy sentences of some source lengths, each of twice that cost."""
    options = SearchOptions(
        beam_size=1, num_hypotheses=1, length_penalty=0.0, min_target_length=0, max_target_length=10_000
    )
    sentences = [Sentence(source_ids=[5] * length, options=options) for length in lengths]

    async def make() -> Request[object]:
        # No model is asked for anything here.
        terms = Terms(model=None, caller=caller)  # type: ignore[arg-type]
        return Request(terms, sentences, render=lambda _position, found, _cut: found)

    return asyncio.run(make()).sentences


def fill(backlogs: Mapping[str, Sequence[int]]) -> FairQueue:
    queue = FairQueue()
    for caller, lengths in backlogs.items():
        queue.add(queued(caller, lengths))
    return queue


def take_all(queue: FairQueue, at_once: int = 1) -> list[QueuedSentence]:
    taken, sweep = [], Sweep()
    while queue.count:
        taken += queue.take(sweep, sentences=at_once, source_tokens=10**9)
    return taken


def test_a_caller_with_one_sentence_waits_for_no_more_than_a_turn_of_one_with_a_thousand() -> None:
    queue = fill({"many": [20] * 1000})
    queue.take(Sweep(), sentences=7, source_tokens=10**9)
    queue.add(queued("one", [20]))
    callers = [taken.request.caller for taken in take_all(queue)]
    assert callers.index("one") <= QUANTUM // 40 + 1
    assert len(callers) == 994


backlogs = st.dictionaries(
    st.sampled_from("abcde"), st.lists(st.integers(1, 300), min_size=1, max_size=40), min_size=1, max_size=5
)


@given(backlogs, st.integers(1, 8))
def test_everything_is_taken_once_and_the_sentences_of_a_caller_from_the_shortest_to_the_longest(
    waiting: dict[str, list[int]], at_once: int
) -> None:
    queue = fill(waiting)
    assert queue.count == sum(map(len, waiting.values()))
    assert queue.cost == sum(2 * sum(lengths) for lengths in waiting.values())
    taken = take_all(queue, at_once)
    assert queue.cost == queue.count == 0
    for lengths in waiting.values() if len(waiting) == 1 else ():
        assert [one.source_tokens for one in taken] == sorted(lengths)


@given(backlogs)
def test_callers_who_wait_get_shares_that_differ_by_two_turns_and_a_sentence_at_most(
    waiting: dict[str, list[int]],
) -> None:
    queue = fill(waiting)
    left = Counter({caller: len(lengths) for caller, lengths in waiting.items()})
    served = Counter(dict.fromkeys(waiting, 0))
    longest = 2 * max(max(lengths) for lengths in waiting.values())
    for one in take_all(queue):
        served[one.request.caller] += one.cost
        left[one.request.caller] -= 1
        shares = [served[caller] for caller in waiting if left[caller]]
        if len(shares) == len(waiting):
            assert max(shares) - min(shares) <= 2 * QUANTUM + longest


@pytest.mark.parametrize(("sentences", "source_tokens", "taken"), [(2, 1000, 2), (9, 25, 2), (9, 5, 1), (9, 1000, 4)])
def test_what_is_taken_keeps_to_both_limits_but_is_never_nothing(
    sentences: int, source_tokens: int, taken: int
) -> None:
    queue = fill({"a": [10, 10, 10, 10]})
    assert len(queue.take(Sweep(), sentences=sentences, source_tokens=source_tokens)) == taken


@given(st.lists(st.integers(1, 300), min_size=1, max_size=40), st.integers(0, 300))
def test_a_sweep_goes_on_to_the_longest_and_then_back_to_the_shortest(lengths: list[int], start: int) -> None:
    queue, sweep = fill({"a": lengths}), Sweep(length=start)
    taken = [queue.take(sweep, sentences=1, source_tokens=1)[0].source_tokens for _ in lengths]
    ahead = sorted(length for length in lengths if length >= start)
    assert taken == [*ahead, *sorted((length for length in lengths if length < start), reverse=True)]


@given(st.lists(st.integers(1, 300), min_size=1, max_size=40))
def test_nobody_is_passed_over_for_ever_though_what_comes_is_always_nearer(lengths: list[int]) -> None:
    queue, sweep = FairQueue(), Sweep(length=500)
    waiting = queued("a", lengths)
    queue.add(waiting)
    for _ in range(3 * len(lengths)):
        queue.add(queued("a", [500]))
        [taken] = queue.take(sweep, sentences=1, source_tokens=1)
        waiting = [one for one in waiting if one is not taken]
    assert not waiting


def test_sentences_of_the_same_length_are_taken_oldest_first_on_the_way_down_too() -> None:
    queue = FairQueue()
    waiting = queued("a", [5, 5, 5])
    queue.add(waiting)
    sweep = Sweep(length=9, upward=False)
    assert [queue.take(sweep, sentences=1, source_tokens=1)[0] for _ in waiting] == waiting


def test_what_is_removed_is_not_taken_and_counts_no_longer() -> None:
    queue = FairQueue()
    first, second, third = queued("a", [1, 2, 3])
    queue.add([first, second, third])
    assert queue.remove([second, second]) == [second]
    assert (queue.count, queue.cost, queue.backlog("a")) == (2, 8, 8)
    assert take_all(queue) == [first, third]
    assert queue.remove([first]) == []


@pytest.mark.parametrize(("caller", "ahead"), [("new", 0), ("a", 20 + 20 + 6), ("b", 20 + 100 + 6)])
def test_a_newcomer_has_nothing_ahead_and_others_as_much_of_each_as_they_have_themselves(
    caller: str, ahead: int
) -> None:
    queue = fill({"a": [10], "b": [50], "c": [3]})
    assert queue.cost_ahead(caller) == ahead
