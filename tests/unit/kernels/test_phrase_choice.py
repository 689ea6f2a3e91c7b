"""The library's choice of hypotheses that hold phrases, step by step beside that of numpy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xuanzang.kernels.step_functions import StepFunctions
from xuanzang.server.engine.arrays import Floats
from xuanzang.server.engine.decoding.phrases.array_choice import ArrayChoice
from xuanzang.server.engine.decoding.phrases.automaton import PhraseAutomaton, RequiredPhrase, compile_phrases
from xuanzang.server.engine.decoding.phrases.compiled_choice import CompiledChoice
from xuanzang.server.engine.decoding.phrases.search import Inspection, PhraseChoice
from xuanzang.server.engine.variants import Variant

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


@pytest.fixture(scope="module")
def functions(built: Path) -> StepFunctions:
    return StepFunctions(built)


class Pair:
    """Both choices, of the same hypotheses."""

    def __init__(self, functions: StepFunctions, beam_size: int, *, seed: int) -> None:
        choices: tuple[PhraseChoice, ...] = (ArrayChoice(beam_size, EOS), CompiledChoice(functions, beam_size, EOS))
        self.choices, self._beam_size = choices, beam_size
        self._random = np.random.default_rng(seed)
        self._scores = np.zeros((0, beam_size), np.float32)
        self.ended = 0

    def rebuild(self, kept: Sequence[int], new: Sequence[PhraseAutomaton]) -> None:
        for choice in self.choices:
            choice.rebuild(kept, new)
        first = np.full((len(new), self._beam_size), -1e9, np.float32)
        first[:, 0] = 0.0
        self._scores = np.concatenate([self._scores[list(kept)], first])

    def step(self, steps_left: int) -> None:
        """Continue all hypotheses with the same random scores, of which many are equal, and some forbidden."""
        these, those = (choice.required_ids for choice in self.choices)
        np.testing.assert_array_equal(these, those)
        quarters = np.round(self._random.exponential(12, (len(these), VOCAB)))
        gains: Floats = (-quarters / 4).astype(np.float32)
        gains[self._random.random(gains.shape) < 0.05] = -1e9
        ids = np.argsort(-gains, axis=1, kind="stable")[:, : 2 * self._beam_size].copy()
        wanted = np.take_along_axis(gains, these, axis=1)
        inspection = Inspection(np.take_along_axis(gains, ids, axis=1), ids, wanted)
        left = np.full(len(self._scores), steps_left)
        found, expected = (choice.choose(self._scores, inspection, left) for choice in self.choices)
        for these_values, those_values in zip(found[:3], expected[:3], strict=True):
            np.testing.assert_array_equal(these_values, those_values)
        assert found.endings == expected.endings
        self.ended += sum(map(len, found.endings))
        self._scores = found.scores.astype(np.float32)


@settings(max_examples=25)
@given(first=SENTENCES, second=SENTENCES, beam_size=st.integers(1, 6), seed=st.integers(0, 10**6))
def test_the_library_chooses_what_numpy_chooses(
    functions: StepFunctions,
    first: list[PhraseAutomaton],
    second: list[PhraseAutomaton],
    beam_size: int,
    seed: int,
) -> None:
    pair = Pair(functions, beam_size, seed=seed)
    pair.rebuild([], first)
    for step in range(STEPS):
        if step == STEPS // 3:
            pair.rebuild(range(len(first))[::-2], second)
        if step == 2 * STEPS // 3:
            pair.rebuild(range(len(second)), [])
        pair.step(STEPS - step)


def test_hypotheses_end_when_they_hold_their_phrases(functions: StepFunctions) -> None:
    pair = Pair(functions, 4, seed=1)
    word = RequiredPhrase(variants=(Variant((5,), guards_start=False, guards_end=False),))
    pair.rebuild([], [compile_phrases([word], CLASSES)])
    for step in range(STEPS):
        pair.step(STEPS - step)
    assert pair.ended
