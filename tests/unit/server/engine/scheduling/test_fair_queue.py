"""Turns of callers: every test builds its requests in an event loop of its own, where requests belong."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from search_options import search_options

from xuanzang.server.engine.decoding.hypotheses import Sentence
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.call import CallContext, FlowKey
from xuanzang.server.engine.scheduling.fair_queue import FairQueue, Sweep
from xuanzang.server.engine.scheduling.rendering import SentenceRenderer
from xuanzang.server.engine.scheduling.request import PlannedSearch, QueuedSentence, Request
from xuanzang.server.engine.settings import UNLIMITED
from xuanzang.server.engine.types import CallerId

QUANTUM = 256


class Open:
    """A gate that admits so many sentences."""

    def __init__(self, sentences: float = math.inf) -> None:
        self._left = sentences

    def is_open(self, key: FlowKey) -> bool:
        return key.limited is None and self._left > 0

    def admits(self, queued: QueuedSentence) -> bool:
        self._left -= 1
        return queued.cache_bytes == 0


class FreeModel(LoadedModel):
    """A model without bundle, limits and memory."""

    def __init__(self) -> None:
        self.limits = UNLIMITED
        self._cache_shape = None


def queued(caller: str, lengths: Sequence[int]) -> list[QueuedSentence]:
    """Return greedy sentences of some source lengths, each of twice that cost."""
    options = search_options(beam_size=1, max_target_length=10_000)
    # A queue asks for no codec.
    renderer = SentenceRenderer(codec=None)  # type: ignore[arg-type]
    searches = [PlannedSearch(Sentence(source_ids=[5] * length, options=options), renderer) for length in lengths]

    async def make() -> Request:
        return Request(CallContext(model=FreeModel(), caller=CallerId(caller)), searches)

    return list(asyncio.run(make()).sentences)


def fill(backlogs: Mapping[str, Sequence[int]]) -> FairQueue:
    queue = FairQueue()
    for caller, lengths in backlogs.items():
        queue.add(queued(caller, lengths))
    return queue


def take_all(queue: FairQueue, at_once: int = 1) -> list[QueuedSentence]:
    taken, sweep = [], Sweep()
    while queue.count:
        taken += queue.take(sweep, Open(at_once), max_source_tokens=10**9, now=0.0)
    return taken


def test_a_lone_sentence_waits_for_one_turn_of_a_caller_with_a_thousand() -> None:
    queue = fill({"many": [20] * 1000})
    queue.take(Sweep(), Open(7), max_source_tokens=10**9, now=0.0)
    queue.add(queued("one", [20]))
    callers = [taken.request.flow.caller.share for taken in take_all(queue)]
    assert callers.index("one") <= QUANTUM // 40 + 1
    assert len(callers) == 994


backlogs = st.dictionaries(
    st.sampled_from("abcde"), st.lists(st.integers(1, 300), min_size=1, max_size=40), min_size=1, max_size=5
)


@given(backlogs, st.integers(1, 8))
def test_everything_is_taken_once_each_caller_from_shortest_to_longest(
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
def test_shares_of_waiting_callers_differ_by_at_most_two_turns_and_a_sentence(
    waiting: dict[str, list[int]],
) -> None:
    queue = fill(waiting)
    left = Counter({caller: len(lengths) for caller, lengths in waiting.items()})
    served = Counter(dict.fromkeys(waiting, 0))
    longest = 2 * max(max(lengths) for lengths in waiting.values())
    for one in take_all(queue):
        served[one.request.flow.caller.share] += one.cost
        left[one.request.flow.caller.share] -= 1
        shares = [served[caller] for caller in waiting if left[caller]]
        if len(shares) == len(waiting):
            assert max(shares) - min(shares) <= 2 * QUANTUM + longest


@pytest.mark.parametrize(("sentences", "source_tokens", "taken"), [(2, 1000, 2), (9, 25, 2), (9, 5, 1), (9, 1000, 4)])
def test_what_is_taken_keeps_to_both_limits_but_is_never_empty(sentences: int, source_tokens: int, taken: int) -> None:
    queue = fill({"a": [10, 10, 10, 10]})
    assert len(queue.take(Sweep(), Open(sentences), max_source_tokens=source_tokens, now=0.0)) == taken


@given(st.lists(st.integers(1, 300), min_size=1, max_size=40), st.integers(0, 300))
def test_a_sweep_goes_to_the_longest_and_back_to_the_shortest(lengths: list[int], start: int) -> None:
    queue, sweep = fill({"a": lengths}), Sweep(length=start)
    taken = [queue.take(sweep, Open(1), max_source_tokens=1, now=0.0)[0].source_tokens for _ in lengths]
    ahead = sorted(length for length in lengths if length >= start)
    assert taken == [*ahead, *sorted((length for length in lengths if length < start), reverse=True)]


@given(st.lists(st.integers(1, 300), min_size=1, max_size=40))
def test_no_sentence_waits_for_ever_though_newcomers_are_always_nearer(lengths: list[int]) -> None:
    queue, sweep = FairQueue(), Sweep(length=500)
    waiting = queued("a", lengths)
    queue.add(waiting)
    for _ in range(3 * len(lengths)):
        queue.add(queued("a", [500]))
        [taken] = queue.take(sweep, Open(1), max_source_tokens=1, now=0.0)
        waiting = [one for one in waiting if one is not taken]
    assert not waiting


@given(st.lists(st.integers(1, 300), max_size=40), st.integers(1, 5))
def test_what_is_dealt_is_taken_once_and_no_worker_gets_more_than_an_equal_share(
    lengths: list[int], workers: int
) -> None:
    queue = fill({"a": lengths[::2], "b": lengths[1::2]})
    shares = [queue.deal(left, Open(), max_source_tokens=10**9, now=0.0) for left in range(workers, 0, -1)]
    assert queue.cost == queue.count == 0
    assert sorted(one.source_tokens for share in shares for one in share) == sorted(lengths)
    assert max(map(len, shares)) <= -(-len(lengths) // workers)


def test_a_share_keeps_to_both_limits_but_is_never_empty() -> None:
    queue = fill({"a": [40, 30, 20, 10], "b": [25, 15]})
    assert [one.source_tokens for one in queue.deal(2, Open(1), max_source_tokens=100, now=0.0)] == [40]
    assert [one.source_tokens for one in queue.deal(2, Open(), max_source_tokens=5, now=0.0)] == [30]
    assert queue.count == 4


def test_nothing_is_dealt_while_a_sentence_is_late_or_due() -> None:
    queue, [urgent] = fill({"a": [40, 30]}), queued("b", [5])
    urgent.goes_first_at = 7.0
    queue.add([urgent])
    assert not queue.deal(2, Open(1), max_source_tokens=10**9, now=7.0)
    assert [one.source_tokens for one in queue.deal(2, Open(1), max_source_tokens=10**9, now=6.0)] == [40]
    short = fill({"a": [1]})
    for _ in range(2):
        short.add(queued("b", [50]))
        assert [one.source_tokens for one in short.deal(2, Open(1), max_source_tokens=10**9, now=0.0)] == [50]
    # As many newcomers as its patience allows have gone before it.
    short.add(queued("b", [50]))
    assert not short.deal(2, Open(1), max_source_tokens=10**9, now=0.0)


def test_sentences_of_equal_length_are_taken_oldest_first_on_the_way_down_too() -> None:
    queue = FairQueue()
    waiting = queued("a", [5, 5, 5])
    queue.add(waiting)
    sweep = Sweep(length=9, upward=False)
    assert [queue.take(sweep, Open(1), max_source_tokens=1, now=0.0)[0] for _ in waiting] == waiting


def test_removed_sentences_are_neither_taken_nor_counted() -> None:
    queue = FairQueue()
    first, second, third = queued("a", [1, 2, 3])
    queue.add([first, second, third])
    assert queue.remove([second, second]) == [second]
    assert (queue.count, queue.cost, queue.backlog(FlowKey(CallerId("a")))) == (2, 8, 8)
    assert take_all(queue) == [first, third]
    assert queue.remove([first]) == []


@pytest.mark.parametrize(
    ("caller", "cost", "before"), [("new", 10, 10 + 10 + 6), ("a", 4, 20 + 24 + 6), ("b", 1000, 100 + 20 + 6)]
)
def test_before_a_request_go_its_caller_and_as_much_of_each_other(caller: str, cost: int, before: int) -> None:
    queue = fill({"a": [10], "b": [50], "c": [3]})
    assert queue.cost_before(FlowKey(CallerId(caller)), cost) == before


times = st.lists(st.tuples(st.integers(1, 50), st.integers(0, 20) | st.none()), min_size=1, max_size=20)


@given(times, st.integers(0, 20))
def test_late_sentences_go_first_in_the_order_of_their_times(waiting: list[tuple[int, int | None]], now: int) -> None:
    queue, sweep = FairQueue(), Sweep()
    sentences = queued("a", [length for length, _ in waiting])
    for one, (_, time) in zip(sentences, waiting, strict=True):
        one.goes_first_at = math.inf if time is None else float(time)
    queue.add(sentences)
    taken = [queue.take(sweep, Open(1), max_source_tokens=10**9, now=float(now))[0].goes_first_at for _ in waiting]
    late = sorted(one.goes_first_at for one in sentences if one.goes_first_at <= now)
    assert taken[: len(late)] == late
    assert not queue.count
