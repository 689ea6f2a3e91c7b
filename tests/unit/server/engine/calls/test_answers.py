from __future__ import annotations

import asyncio
import math
import random
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from search_options import search_options

from xuanzang.server.engine.calls.answers import AnswerCache, AnsweredSearches, AnswerKey, _size_of
from xuanzang.server.engine.calls.jobs import SentenceListener
from xuanzang.server.engine.calls.rendering import PlannedSearch, SentenceRenderer, SentenceResult
from xuanzang.server.engine.decoding.hypotheses import (
    SearchOptions,
    SearchRecorder,
    Sentence,
    TargetHypothesis,
    TokenDetails,
)
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.request import CallContext, SentenceTimeline
from xuanzang.server.engine.threads import CallerThreads
from xuanzang.server.engine.types import NO_CALLER, CallerId, FinishReason, SamplingOptions
from xuanzang.server.metrics import Metrics

OPTIONS = search_options(max_target_length=64)
DECODING = OPTIONS.decoding
TIMELINE = SentenceTimeline(queued_at=0, taken_at=0, encoded_at=0, finished_at=0, worker=0, batch_size=1, steps=1)


@pytest.fixture
def threads() -> Iterator[Executor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


class Caller:
    """Calls of one caller with one model."""

    def __init__(self, model: LoadedModel, name: str = "", *, deadline: float = math.inf, cutoff: float = math.inf):
        self.context = CallContext(model=model, caller=CallerId(name), deadline=deadline, cutoff=cutoff)

    def search(self, *ids: int, options: SearchOptions = OPTIONS) -> PlannedSearch:
        return PlannedSearch(sentence(*ids, options=options), SentenceRenderer(codec=self.context.codec))

    def key(self, cache: AnswerCache, *ids: int, options: SearchOptions = OPTIONS) -> AnswerKey | None:
        return cache.key(self.context, self.search(*ids, options=options))


def sentence(*ids: int, options: SearchOptions = OPTIONS) -> Sentence:
    return Sentence(source_ids=list(ids), options=options)


def found(*ids: int, details: TokenDetails | None = None) -> list[TargetHypothesis]:
    return [
        TargetHypothesis(target_ids=list(ids), score=-1.0, token_count=len(ids) + 1, finished=True, details=details)
    ]


def key_of(cache: AnswerCache, caller: Caller, *ids: int) -> AnswerKey:
    key = caller.key(cache, *ids)
    assert key is not None
    return key


def keep(cache: AnswerCache, caller: Caller, *ids: int) -> AnswerKey:
    key = key_of(cache, caller, *ids)
    cache.end(key, found(*ids))
    return key


def test_an_equal_sentence_gets_the_kept_answer_and_others_do_not(model: LoadedModel, metrics: Metrics) -> None:
    cache, caller = AnswerCache(100_000, metrics.server), Caller(model)
    kept = keep(cache, caller, 5, 6, 2)
    assert cache.get(key_of(cache, caller, 5, 6, 2)) == found(5, 6, 2)
    assert cache.get(key_of(cache, caller, 5, 7, 2)) is None
    assert cache.get(AnswerKey(NO_CALLER, "other", (5, 6, 2), OPTIONS)) is None
    assert cache.get(AnswerKey(NO_CALLER, kept.manifest_sha256, (5, 6, 2), OPTIONS, is_streamed=True)) is None
    for changed in (
        replace(OPTIONS, max_target_length=63),
        replace(OPTIONS, prefix_ids=(9,)),
        replace(OPTIONS, decoding=replace(DECODING, beam_size=5)),
        replace(OPTIONS, decoding=replace(DECODING, token_details=True)),
    ):
        key = caller.key(cache, 5, 6, 2, options=changed)
        assert key is not None
        assert cache.get(key) is None


@pytest.mark.parametrize(("is_shared", "is_found"), [(False, False), (True, True)])
def test_answers_are_shared_if_told(model: LoadedModel, metrics: Metrics, *, is_shared: bool, is_found: bool) -> None:
    cache = AnswerCache(100_000, metrics.server, is_shared=is_shared)
    cache.end(key_of(cache, Caller(model, "one"), 5, 2), found(7))
    assert (cache.get(key_of(cache, Caller(model, "two"), 5, 2)) is not None) is is_found


def test_draws_and_recorded_searches_have_no_key(model: LoadedModel, metrics: Metrics) -> None:
    cache, caller = AnswerCache(100_000, metrics.server), Caller(model)
    drawn = replace(DECODING, sampling=SamplingOptions(top_k=5, top_p=1.0, temperature=1.0, seed=3))
    for options in (replace(OPTIONS, decoding=drawn), replace(OPTIONS, recorder=SearchRecorder(max_steps=1))):
        assert caller.key(cache, 5, 2, options=options) is None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 30), max_size=200), st.integers(2, 12))
def test_the_answers_used_last_are_kept(model: LoadedModel, metrics: Metrics, used: list[int], room: int) -> None:
    caller = Caller(model)
    each = _size_of(key_of(AnswerCache(1, metrics.server), caller, 0), found(0))
    cache = AnswerCache(room * each, metrics.server)
    recent: list[int] = []
    for number in used:
        assert (cache.get(key_of(cache, caller, number)) is not None) is (number in recent)
        keep(cache, caller, number)
        recent = [*(other for other in recent if other != number), number][-room:]
    assert cache.size == len(recent) * each


def test_the_answers_of_a_model_are_dropped_with_it(model: LoadedModel, metrics: Metrics) -> None:
    cache, caller = AnswerCache(100_000, metrics.server), Caller(model)
    dropped = keep(cache, caller, 5)
    kept = AnswerKey(NO_CALLER, "other", (5,), OPTIONS)
    cache.end(kept, found(5))
    cache.drop(dropped.manifest_sha256)
    assert cache.get(dropped) is None
    assert cache.get(kept) is not None
    assert cache.size == _size_of(kept, found(5))


def test_an_answer_larger_than_the_cache_is_not_kept_and_drops_none(model: LoadedModel, metrics: Metrics) -> None:
    cache, caller = AnswerCache(3000, metrics.server), Caller(model)
    small = keep(cache, caller, 5)
    assert cache.get(keep(cache, caller, *range(1000))) is None
    assert cache.get(small) is not None


async def test_only_searches_of_the_caller_that_are_as_urgent_are_shared(model: LoadedModel, metrics: Metrics) -> None:
    cache = AnswerCache(100_000, metrics.server, is_shared=True)
    first = Caller(model, "one", deadline=1e9)
    key = key_of(cache, first, 5, 2)
    cache.begin(key, first.context)
    assert cache.in_flight(key, first.context) is not None
    assert cache.in_flight(key, Caller(model, "one").context) is not None
    assert cache.in_flight(key, Caller(model, "one", deadline=1e8).context) is None
    assert cache.in_flight(key, Caller(model, "two", deadline=1e9).context) is None
    assert cache.in_flight(key, Caller(model, "one", deadline=1e9, cutoff=1e9).context) is None
    cache.end(key, None)
    assert cache.in_flight(key, first.context) is None


class Decoder:
    """Searches sentences when it is told to; what it finds follows from the sentence."""

    def __init__(self) -> None:
        self.searched: list[int] = []
        self.go = asyncio.Event()
        self.cut: set[int] = set()
        """Sentences that a deadline cuts short."""

    async def __call__(
        self, searches: Sequence[PlannedSearch], listener: SentenceListener | None
    ) -> list[SentenceResult]:
        self.searched += [search.sentence.source_ids[0] for search in searches]
        await self.go.wait()
        results = []
        for position, search in enumerate(searches):
            first = search.sentence.source_ids[0]
            cut = first in self.cut
            hypotheses = [replace(each, finished=not cut) for each in found(first, 7)]
            reason = FinishReason.DEADLINE if cut else FinishReason.MAX_LENGTH
            texts = [search.renderer.render(search.sentence, each, cut=reason) for each in hypotheses]
            result = SentenceResult(hypotheses, texts, TIMELINE)
            if listener:
                listener.on_result(position, result)
            results.append(result)
        return results


class Heard:
    """What a listener heard."""

    reads_along = True

    def __init__(self) -> None:
        self.positions: list[int] = []

    def on_prefix(self, position: int, text: str) -> None:
        raise NotImplementedError

    def on_result(self, position: int, result: SentenceResult) -> None:
        self.positions.append(position)


Ask = Callable[..., asyncio.Task[list[SentenceResult]]]


@pytest.fixture
def ask(model: LoadedModel, metrics: Metrics, threads: Executor) -> Ask:
    cache = AnswerCache(100_000, metrics.server)

    def start(decoder: Decoder, *firsts: int, listener: Heard | None = None) -> asyncio.Task[list[SentenceResult]]:
        caller = Caller(model)
        searches = [caller.search(first, 2) for first in firsts]
        asked = AnsweredSearches(decoder, cache, caller.context, rendering=CallerThreads(threads))
        return asyncio.ensure_future(asked.search(searches, listener))

    return start


async def answers(task: asyncio.Task[list[SentenceResult]]) -> list[int]:
    return [result.found[0].target_ids[0] for result in await task]


async def test_each_sentence_is_searched_once_however_often_it_is_asked(ask: Ask) -> None:
    decoder = Decoder()
    tasks = [ask(decoder, 5, 6, 5), ask(decoder, 6, 8), ask(decoder, 5)]
    await asyncio.sleep(0)
    decoder.go.set()
    assert [await answers(task) for task in tasks] == [[5, 6, 5], [6, 8], [5]]
    assert await answers(ask(decoder, *range(5, 20))) == [*range(5, 20)]
    assert sorted(decoder.searched) == [5, 6, 7, 8, *range(9, 20)]


async def test_whoever_waits_for_a_search_that_is_given_up_searches_by_themselves(ask: Ask) -> None:
    first, second = Decoder(), Decoder()
    second.go.set()
    leader = ask(first, 5)
    await asyncio.sleep(0)
    others = [ask(second, 5), ask(second, 5, 6)]
    await asyncio.sleep(0)
    leader.cancel()
    assert [await answers(each) for each in others] == [[5], [5, 6]]
    with pytest.raises(asyncio.CancelledError):
        await leader


async def test_one_who_stops_waiting_takes_nothing_from_the_others(ask: Ask) -> None:
    decoder = Decoder()
    leader, one, other = ask(decoder, 5), ask(decoder, 5), ask(decoder, 5)
    await asyncio.sleep(0)
    one.cancel()
    await asyncio.sleep(0)
    decoder.go.set()
    assert (await answers(leader), await answers(other)) == ([5], [5])
    assert decoder.searched == [5]


async def test_what_a_deadline_cut_short_is_neither_kept_nor_shared(ask: Ask) -> None:
    decoder, other = Decoder(), Decoder()
    decoder.cut.add(5)
    leader = ask(decoder, 5)
    await asyncio.sleep(0)
    waiting = ask(other, 5)
    await asyncio.sleep(0)
    assert other.searched == []
    decoder.go.set()
    other.go.set()
    assert (await leader)[0].hypotheses[0].finish_reason is FinishReason.DEADLINE
    assert (await waiting)[0].hypotheses[0].finish_reason is FinishReason.END_OF_SENTENCE
    assert decoder.searched == other.searched == [5]


async def test_a_listener_hears_of_each_sentence_by_its_own_position(ask: Ask) -> None:
    decoder, heard = Decoder(), Heard()
    decoder.go.set()
    await ask(decoder, 6, listener=Heard())
    await ask(decoder, 5, 6, 7, 5, listener=heard)
    assert sorted(heard.positions) == [0, 1, 2, 3]
    assert decoder.searched == [6, 5, 7]


@pytest.mark.parametrize("has_details", [False, True])
def test_the_bytes_counted_are_those_allocated(model: LoadedModel, metrics: Metrics, *, has_details: bool) -> None:
    rng = random.Random(5)
    cache, caller = AnswerCache(1 << 40, metrics.server), Caller(model)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(500):
            ids = [rng.randrange(1000, 30000) for _ in range(rng.randrange(5, 60))]
            details = None
            if has_details:
                scores = [rng.random() for _ in ids]
                details = TokenDetails(scores, [*range(len(ids))], 0.5, tuple(rng.random() for _ in ids))
            key = caller.key(cache, *ids, options=replace(OPTIONS, max_target_length=len(ids) + 300))
            assert key is not None
            cache.end(key, found(*(each + 1 for each in ids), details=details))
        allocated = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert 0.7 < cache.size / allocated < 1.5
