"""The choice of hypotheses that hold phrases, step by step, for sentences together and for each alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from xuanzang.server.engine.arrays import Floats, Order
from xuanzang.server.engine.decoding.phrase_automaton import PhraseAutomaton, RequiredPhrase, compile_phrases
from xuanzang.server.engine.decoding.phrase_search import Choice, Inspection, RequiredPhraseSearch
from xuanzang.text.types import Variant

EOS, VOCAB, STEPS = 0, 24, 12
CLASSES = np.array([number % 4 if number > VOCAB // 2 else 0 for number in range(VOCAB)], np.int8)
VARIANT = st.builds(
    Variant,
    st.lists(st.integers(1, VOCAB - 1), min_size=1, max_size=4).map(tuple),
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
        quarters = np.round(self._random.exponential(12, (len(asked), VOCAB)))
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
        own = gains.reshape(-1, self._beam_size, VOCAB)[place].reshape(-1, VOCAB)
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
