"""The search for hypotheses that hold phrases, compared with brute force over a language of a few words."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from search_options import search_options

from xuanzang.server.engine.arrays import Floats, Order
from xuanzang.server.engine.decoding.beam_search import BeamSearch
from xuanzang.server.engine.decoding.hypotheses import TargetHypothesis
from xuanzang.server.engine.decoding.phrase_automaton import PhraseAutomaton, RequiredPhrase, compile_phrases
from xuanzang.server.engine.decoding.phrase_search import Choice, Inspection, RequiredPhraseSearch
from xuanzang.server.engine.decoding.search_state import Candidates
from xuanzang.text.types import CONTINUES, OPENS, Variant

EOS, WORDS = 0, (1, 2, 3, 4)
VOCAB = 1 + len(WORDS)
LIMIT = 4
EVERYTHING = 4**LIMIT


def language(seed: int) -> Floats:
    """Return log-probabilities of the next word after each two words, [before, last, next]."""
    logits = np.random.default_rng(seed).normal(size=(VOCAB, VOCAB, VOCAB)) * 2
    found: Floats = (logits - np.log(np.exp(logits).sum(axis=2, keepdims=True))).astype(np.float32)
    return found


def search(words: Floats, phrases: PhraseAutomaton, *, beam_size: int, limit: int = LIMIT) -> list[TargetHypothesis]:
    """Run the search with a table in place of the decoder graph."""
    searching = BeamSearch(beam_size, start_id=EOS, eos_id=EOS)
    options = search_options(beam_size=beam_size, length_penalty=0.0, max_target_length=limit, phrases=phrases)
    searching.join(np.array([0]), [options])
    before = np.zeros(beam_size, np.int64)
    while True:
        last = searching.beams.token_ids[0].copy()
        gains = words[before, last]
        rows = np.argsort(-gains, axis=1, kind="stable")[:, : 2 * beam_size]
        asked = np.take_along_axis(gains, searching.required.required_ids, axis=1)
        inspection = Inspection(np.take_along_axis(gains, rows, axis=1), rows, asked)
        unused = Candidates(*(np.zeros((1, 2 * beam_size), dtype) for dtype in (np.float32, np.int64, np.int64)))
        done = searching.advance(unused, np.zeros((1, beam_size, 1), np.float32), inspection)
        if done:
            return done[0][1]
        before = last[searching.beams.parents[0]]


def total(words: Floats, ids: Sequence[int]) -> float:
    history = [EOS, EOS, *ids]
    return float(sum(words[history[at], history[at + 1], history[at + 2]] for at in range(len(ids))))


def times(ids: Sequence[int], phrase: Sequence[int]) -> int:
    return sum(tuple(ids[start : start + len(phrase)]) == tuple(phrase) for start in range(len(ids)))


def free(*phrases: Sequence[int], counts: Sequence[int] = (), is_ordered: bool = False) -> PhraseAutomaton:
    """Compile phrases without word boundaries."""
    wanted = counts or [1] * len(phrases)
    required = [
        RequiredPhrase(
            variants=(Variant(tuple(ids), guards_start=False, guards_end=False),), count=count, is_ordered=is_ordered
        )
        for ids, count in zip(phrases, wanted, strict=True)
    ]
    return compile_phrases(required, np.zeros(VOCAB, np.int8))


PHRASES = st.lists(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=2).map(tuple), min_size=1, max_size=2, unique=True
)


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), phrases=PHRASES)
def test_a_beam_that_holds_everything_finds_what_brute_force_finds(seed: int, phrases: list[tuple[int, ...]]) -> None:
    # What phrases share is counted twice when the search judges whether they fit into the limit.
    assume(len({word for phrase in phrases for word in phrase}) == sum(len(set(phrase)) for phrase in phrases))
    words = language(seed)
    ended = ((*ids, EOS) for length in range(LIMIT) for ids in itertools.product(WORDS, repeat=length))
    # At the limit hypotheses count as they are, with phrases that leave room for the end.
    every = itertools.chain(ended, itertools.product(WORDS, repeat=LIMIT))
    held = [ids for ids in every if all(times(ids[: LIMIT - 1], phrase) for phrase in phrases)]
    assume(held)
    best = max(held, key=lambda ids: total(words, ids))
    [found] = search(words, free(*phrases), beam_size=EVERYTHING * (len(phrases) + 2))
    assert found.score == pytest.approx(total(words, best), abs=1e-4)
    assert found.target_ids == [token for token in best if token != EOS]


@given(seed=st.integers(0, 10**6), phrases=PHRASES, beam_size=st.integers(2, 6), more=st.integers(0, 3))
def test_any_beam_finds_the_phrases(seed: int, phrases: list[tuple[int, ...]], beam_size: int, more: int) -> None:
    words, limit = language(seed), sum(map(len, phrases)) + 1 + more
    [found] = search(words, free(*phrases), beam_size=beam_size, limit=limit)
    assert all(times(found.target_ids, phrase) for phrase in phrases)
    assert found.score == pytest.approx(total(words, [*found.target_ids, *[EOS] * found.finished]), abs=1e-4)


@given(seed=st.integers(0, 10**6), count=st.integers(2, 3))
def test_a_phrase_occurs_as_often_as_required(seed: int, count: int) -> None:
    [found] = search(language(seed), free((1, 2), counts=[count]), beam_size=4, limit=10)
    assert times(found.target_ids, (1, 2)) >= count


@given(
    seed=st.integers(0, 10**6),
    longer=st.lists(st.sampled_from(WORDS), min_size=2, max_size=3, unique=True),
    place=st.integers(0, 2),
    counts=st.tuples(st.integers(1, 2), st.integers(1, 2)),
)
def test_a_phrase_within_another_is_another(seed: int, longer: list[int], place: int, counts: tuple[int, int]) -> None:
    shorter = longer[place % len(longer) :][:1]
    [found] = search(language(seed), free(longer, shorter, counts=counts), beam_size=6, limit=16)
    assert times(found.target_ids, longer) >= counts[0]
    assert times(found.target_ids, shorter) >= sum(counts)


@given(seed=st.integers(0, 10**6), order=st.permutations(WORDS), beam_size=st.integers(2, 6))
def test_ordered_phrases_stand_in_their_order(seed: int, order: list[int], beam_size: int) -> None:
    phrases = [(order[0], order[1]), (order[0], order[2]), (order[3],)]
    [found] = search(language(seed), free(*phrases, is_ordered=True), beam_size=beam_size, limit=12)
    text = "".join(map(str, found.target_ids))
    places = [text.find("".join(map(str, phrase))) for phrase in phrases]
    assert -1 not in places
    assert places == sorted(places)


@given(ids=st.lists(st.sampled_from(WORDS), max_size=12), phrases=PHRASES)
def test_the_automaton_counts_every_occurrence(ids: list[int], phrases: list[tuple[int, ...]]) -> None:
    automaton = free(*phrases)
    state, counts = 0, np.zeros(len(phrases), np.int16)
    for token in ids:
        symbol = automaton.symbols[token]
        counts += automaton.gains[automaton.gained[state, symbol]]
        state = automaton.next_states[state, symbol]
    assert counts.tolist() == [times(ids, phrase) for phrase in phrases]


def test_a_phrase_counts_only_as_whole_words() -> None:
    classes = np.zeros(VOCAB, np.int8)
    classes[2], classes[3] = CONTINUES, OPENS
    guarded = compile_phrases([RequiredPhrase(variants=(Variant((1,), guards_start=True, guards_end=True),))], classes)

    def held(*ids: int) -> bool:
        state, found = 0, 0
        for token in ids:
            symbol = guarded.symbols[token]
            found += int(guarded.gains[guarded.gained[state, symbol]].sum())
            state = int(guarded.next_states[state, symbol])
        return found + int(guarded.states.pending[state].sum()) > 0

    assert held(1)
    assert held(3, 1, 4)
    assert not held(1, 2)
    assert not held(4, 1)


def test_a_sentence_without_room_for_its_phrases_ends_at_its_limit() -> None:
    [found] = search(language(1), free((1, 2, 3)), beam_size=4, limit=2)
    assert found.token_count == 2


def test_phrases_follow_at_once_where_the_model_would_have_ended() -> None:
    # After a first 1 the model ends or goes on with 1, equally probably; 2, which is required, fits better after two.
    words = np.full((VOCAB, VOCAB, VOCAB), -20.0, np.float32)
    words[:, EOS, 1] = words[:, 2, EOS] = 0.0
    words[:, EOS, 2] = -40.0
    words[:, 1, EOS] = words[:, 1, 1] = np.log(0.5)
    words[1, 1, 2] = -5.0
    [narrow], [wide] = (search(words, free((2,)), beam_size=size, limit=8) for size in (2, EVERYTHING))
    assert narrow.target_ids == [1, 2]
    assert wide.target_ids == [1, 1, 2]


SIZE, STEPS = 24, 12
CLASSES = np.array([number % 4 if number > SIZE // 2 else 0 for number in range(SIZE)], np.int8)
VARIANT = st.builds(
    Variant,
    st.lists(st.integers(1, SIZE - 1), min_size=1, max_size=4).map(tuple),
    guards_start=st.booleans(),
    guards_end=st.booleans(),
)
PHRASE = st.builds(
    RequiredPhrase, variants=st.lists(VARIANT, min_size=1, max_size=2, unique=True).map(tuple), count=st.integers(1, 2)
)
SENTENCE = st.lists(PHRASE, min_size=1, max_size=4).map(lambda phrases: compile_phrases(phrases, CLASSES))
SENTENCES = st.lists(SENTENCE, min_size=1, max_size=3)


class Sentences:
    """Sentences that are chosen for together, and each alone, of the same hypotheses."""

    def __init__(self, beam_size: int, *, seed: int) -> None:
        self._together, self._alone = RequiredPhraseSearch(beam_size, EOS), list[RequiredPhraseSearch]()
        self._beam_size = beam_size
        self._random = np.random.default_rng(seed)
        self._scores = np.zeros((0, beam_size), np.float32)
        self.ended = 0

    def rebuild(self, kept: Sequence[int], new: Sequence[PhraseAutomaton]) -> None:
        self._together.select(Order.of(np.array(kept, np.int64)))
        self._together.join(np.arange(len(kept), len(kept) + len(new)), new)
        self._alone = [self._alone[number] for number in kept]
        for automaton in new:
            self._alone.append(RequiredPhraseSearch(self._beam_size, EOS))
            self._alone[-1].join(np.zeros(1, np.int64), [automaton])
        first = np.full((len(new), self._beam_size), -1e9, np.float32)
        first[:, 0] = 0.0
        self._scores = np.concatenate([self._scores[list(kept)], first])

    def step(self, steps_left: int) -> None:
        """Continue all hypotheses with the same random scores, of which many are equal, and some forbidden."""
        asked = self._together.required_ids
        quarters = np.round(self._random.exponential(12, (len(asked), SIZE)))
        gains: Floats = (-quarters / 4).astype(np.float32)
        gains[self._random.random(gains.shape) < 0.05] = -1e9
        found = self._choose(self._together, gains, slice(None), steps_left)
        for number, alone in enumerate(self._alone):
            [expected] = self._choose(alone, gains, slice(number, number + 1), steps_left)
            for these, those in zip(found[number][:3], expected[:3], strict=True):
                np.testing.assert_array_equal(these, those)
            assert found[number].endings == expected.endings
        self.ended += sum(len(choice.endings) for choice in found)
        self._scores = np.array([choice.scores for choice in found], np.float32)

    def _choose(self, search: RequiredPhraseSearch, gains: Floats, place: slice, steps_left: int) -> list[Choice]:
        scores = self._scores[place]
        own = gains.reshape(-1, self._beam_size, SIZE)[place].reshape(-1, SIZE)
        ids = np.argsort(-own, axis=1, kind="stable")[:, : 2 * self._beam_size].copy()
        wanted = np.take_along_axis(own, search.required_ids, axis=1)
        inspection = Inspection(np.take_along_axis(own, ids, axis=1), ids, wanted)
        return [choice for _, choice in search.choose(scores, inspection, np.full(len(scores), steps_left))]


@settings(max_examples=25)
@given(first=SENTENCES, second=SENTENCES, beam_size=st.integers(1, 6), seed=st.integers(0, 10**6))
def test_a_choice_does_not_depend_on_the_sentences_beside_it(
    first: list[PhraseAutomaton], second: list[PhraseAutomaton], beam_size: int, seed: int
) -> None:
    pair = Sentences(beam_size, seed=seed)
    pair.rebuild([], first)
    for step in range(STEPS):
        if step == STEPS // 3:
            pair.rebuild(range(len(first))[::-2], second)
        if step == 2 * STEPS // 3:
            pair.rebuild(range(len(second)), [])
        pair.step(STEPS - step)


def test_hypotheses_end_when_they_hold_their_phrases() -> None:
    pair = Sentences(4, seed=1)
    word = RequiredPhrase(variants=(Variant((5,), guards_start=False, guards_end=False),))
    pair.rebuild([], [compile_phrases([word], CLASSES)])
    for step in range(STEPS):
        pair.step(STEPS - step)
    assert pair.ended
