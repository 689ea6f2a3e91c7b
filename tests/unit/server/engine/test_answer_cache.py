from __future__ import annotations

import asyncio
import random
import tracemalloc
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xuanzang.server.engine.answer_cache import AnswerCache, AnswerKey, _size_of
from xuanzang.server.engine.decoding.hypotheses import SearchOptions, Sentence, TargetHypothesis, TokenDetails
from xuanzang.server.engine.decoding.search_recorder import SearchRecorder
from xuanzang.server.engine.types import DecodingOptions, SamplingOptions

DECODING = DecodingOptions(
    beam_size=4, num_hypotheses=1, length_penalty=1.0, min_target_length=0, max_target_length=None
)
OPTIONS = SearchOptions(decoding=DECODING, max_target_length=64)


class Sizes:
    """What a cache reported."""

    def __init__(self) -> None:
        self.entries = self.size = self.evicted = 0

    def answers_changed(self, entries: int, size: int) -> None:
        self.entries, self.size = entries, size

    def answers_evicted(self, entries: int) -> None:
        self.evicted += entries


def sentence(*ids: int, options: SearchOptions = OPTIONS) -> Sentence:
    return Sentence(source_ids=list(ids), options=options)


def found(*ids: int, details: TokenDetails | None = None) -> list[TargetHypothesis]:
    return [
        TargetHypothesis(target_ids=list(ids), score=-1.0, token_count=len(ids) + 1, finished=True, details=details)
    ]


def key_of(cache: AnswerCache, *ids: int, caller: str = "", manifest: str = "m") -> AnswerKey:
    key = cache.key(caller, manifest, sentence(*ids))
    assert key is not None
    return key


def keep(cache: AnswerCache, *ids: int, manifest: str = "m") -> AnswerKey:
    key = key_of(cache, *ids, manifest=manifest)
    cache.end(key, found(*ids))
    return key


def test_an_equal_sentence_gets_the_kept_answer_and_others_do_not() -> None:
    cache = AnswerCache(100_000, Sizes())
    keep(cache, 5, 6, 2)
    assert cache.get(key_of(cache, 5, 6, 2)) == found(5, 6, 2)
    assert cache.get(key_of(cache, 5, 7, 2)) is None
    assert cache.get(key_of(cache, 5, 6, 2, manifest="other")) is None
    for changed in (
        replace(OPTIONS, max_target_length=63),
        replace(OPTIONS, prefix_ids=(9,)),
        replace(OPTIONS, decoding=replace(DECODING, beam_size=5)),
        replace(OPTIONS, decoding=replace(DECODING, token_details=True)),
    ):
        key = cache.key("", "m", sentence(5, 6, 2, options=changed))
        assert key is not None
        assert cache.get(key) is None


@pytest.mark.parametrize(("is_shared", "is_found"), [(False, False), (True, True)])
def test_callers_share_answers_only_if_the_operator_says_so(*, is_shared: bool, is_found: bool) -> None:
    cache = AnswerCache(100_000, Sizes(), is_shared=is_shared)
    cache.end(key_of(cache, 5, 2, caller="one"), found(7))
    assert (cache.get(key_of(cache, 5, 2, caller="two")) is not None) is is_found


def test_draws_and_recorded_searches_have_no_key() -> None:
    cache = AnswerCache(100_000, Sizes())
    drawn = replace(DECODING, sampling=SamplingOptions(top_k=5, top_p=1.0, temperature=1.0, seed=3))
    for options in (replace(OPTIONS, decoding=drawn), replace(OPTIONS, recorder=SearchRecorder(max_steps=1))):
        assert cache.key("", "m", sentence(5, 2, options=options)) is None


@given(st.lists(st.integers(0, 30), max_size=200), st.integers(2, 12))
def test_the_answers_used_last_are_kept_within_the_bytes(used: list[int], room: int) -> None:
    sizes = Sizes()
    each = _size_of(key_of(AnswerCache(1, sizes), 0), found(0))
    cache = AnswerCache(room * each, sizes)
    recent: list[int] = []
    for number in used:
        assert (cache.get(key_of(cache, number)) is not None) is (number in recent)
        keep(cache, number)
        recent = [*(other for other in recent if other != number), number][-room:]
    assert (sizes.entries, sizes.size) == (len(recent), len(recent) * each)


def test_the_answers_of_a_model_are_dropped_with_it() -> None:
    sizes = Sizes()
    cache = AnswerCache(100_000, sizes)
    dropped, kept = keep(cache, 5, manifest="old"), keep(cache, 5, manifest="new")
    cache.drop("old")
    assert (cache.get(dropped), sizes.entries) == (None, 1)
    assert cache.get(kept) is not None


def test_an_answer_larger_than_the_cache_is_not_kept_and_drops_none() -> None:
    sizes = Sizes()
    cache = AnswerCache(3000, sizes)
    small = keep(cache, 5)
    assert cache.get(keep(cache, *range(1000))) is None
    assert cache.get(small) is not None
    assert sizes.evicted == 0


async def test_a_search_in_flight_is_shared_until_it_ends() -> None:
    cache = AnswerCache(100_000, Sizes())
    key = key_of(cache, 5, 2)
    assert cache.search_in_flight(key) is None
    cache.begin(key)
    waiting = cache.search_in_flight(key)
    assert waiting is not None
    cache.end(key, found(7))
    assert await asyncio.wait_for(waiting, 1) == found(7)
    assert cache.search_in_flight(key) is None


async def test_a_search_that_is_given_up_tells_those_who_wait_and_keeps_nothing() -> None:
    cache = AnswerCache(100_000, Sizes())
    key = key_of(cache, 5, 2)
    cache.begin(key)
    waiting = cache.search_in_flight(key)
    assert waiting is not None
    cache.end(key, None)
    assert await asyncio.wait_for(waiting, 1) is None
    assert cache.get(key) is None


@pytest.mark.parametrize("has_details", [False, True])
def test_the_bytes_counted_are_about_those_allocated(*, has_details: bool) -> None:
    rng, sizes = random.Random(5), Sizes()
    cache = AnswerCache(1 << 40, sizes)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(500):
            ids = [rng.randrange(1000, 30000) for _ in range(rng.randrange(5, 60))]
            details = None
            if has_details:
                scores = [rng.random() for _ in ids]
                details = TokenDetails(scores, [*range(len(ids))], 0.5, tuple(rng.random() for _ in ids))
            key = cache.key("", "m", sentence(*ids, options=replace(OPTIONS, max_target_length=len(ids) + 300)))
            assert key is not None
            cache.end(key, found(*(each + 1 for each in ids), details=details))
        allocated = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert 0.7 < sizes.size / allocated < 1.5
