"""Sentences join and leave a batch at any step, and no answer depends on it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from decoded import decoded
from hypothesis import given, settings
from hypothesis import strategies as st
from search_options import search_options

from xuanzang.kernels.decode import Interrupt, StepLimit
from xuanzang.kernels.graphs import GraphBinding
from xuanzang.server.engine.decoding.decoder import Decoder
from xuanzang.server.engine.decoding.hypotheses import SearchOptions, SearchRules, Sentence, TargetHypothesis
from xuanzang.server.engine.decoding.phrase_automaton import PhraseAutomaton, RequiredPhrase, compile_phrases
from xuanzang.server.engine.runtime.bindings import Binding
from xuanzang.server.engine.runtime.pages import Tensor
from xuanzang.server.engine.runtime.sessions import Sessions
from xuanzang.server.engine.types import SamplingOptions
from xuanzang.text.types import CONTINUES, OPENS, Variant

LIMIT = 24
LONGEST = 200
"""Tokens of a translation whose slots fill more pages than the page table has entries at first."""


def options(beam_size: int, **changes: Any) -> SearchOptions:
    plain = {"num_hypotheses": beam_size, "max_target_length": LIMIT}
    return search_options(beam_size=beam_size, **{**plain, **changes})


def _sentences(ids: list[int], kinds: Sequence[SearchOptions]) -> list[Sentence]:
    return [Sentence(source_ids=ids, options=options) for options in kinds]


def phrases(*ids: tuple[int, ...]) -> PhraseAutomaton:
    """Compile phrases of ids; a word may begin after every third id, and every fifth goes on with the one before."""
    classes = np.array([OPENS * (token % 3 == 0) | CONTINUES * (token % 5 == 0) for token in range(400)], np.int8)
    guarded = [Variant(one, guards_start=len(one) == 1, guards_end=len(one) > 2) for one in ids]
    free = [Variant((302, *one), guards_start=False, guards_end=False) for one in ids]
    required = [RequiredPhrase(variants=variants) for variants in zip(guarded, free, strict=True)]
    return compile_phrases(required, classes)


KINDS = [
    options(4),
    options(4, length_penalty=0.0, num_hypotheses=2),
    options(1),
    options(3),
    options(4, coverage_penalty=0.3),
    options(2, token_details=True),
    options(4, repetition_penalty=1.4),
    options(4, no_repeat_ngram_size=2),
    options(1, sampling=SamplingOptions(top_k=8, top_p=0.9, temperature=1.2, seed=7)),
    options(4, phrases=phrases((300, 301))),
    options(4, phrases=phrases((310,), (300, 301, 305), (300, 305)), num_hypotheses=2),
    options(4, phrases=phrases(*((number, number + 1) for number in range(304, 316, 2)))),
    options(4, phrases=phrases((300, 301)), prefix_ids=(299, 300), repetition_penalty=1.3),
    options(3, phrases=phrases((306, 307)), token_details=True, coverage_penalty=0.2),
    options(4, no_repeat_ngram_size=2, suppressed_sequences=((280,), (300,), (302,))),
    options(4, rules=SearchRules(shrinks=True)),
]

STEADY_KINDS = [kind for kind, one in enumerate(KINDS) if one in (options(1), options(3), options(4), KINDS[-1])]


RUNTIMES = [
    ("float32", True),
    ("int8", True),
    ("float32", False),
    ("float16", True),
    ("student float32", True),
    ("student int8", True),
    ("student float32", False),
]
SHORTLISTS = [("float32 shortlist", True), ("int8 shortlist", True)]


@pytest.fixture(scope="module", params=[*RUNTIMES, *SHORTLISTS], ids=str)
def runtime(request: pytest.FixtureRequest, open_runtime: Callable[[str, bool], Sessions]) -> Sessions:
    return open_runtime(*request.param)


@pytest.fixture(scope="module")
def alone(runtime: Sessions, texts: list[list[int]]) -> dict[tuple[int, int], list[TargetHypothesis]]:
    """Return the hypotheses of each text with each set of options, decoded alone."""
    return {
        (text, kind): next(iter(decoded(Decoder(runtime), [(0, Sentence(source_ids=ids, options=options))]).values()))
        for text, ids in enumerate(texts)
        for kind, options in enumerate(KINDS)
    }


@settings(max_examples=15)
@given(data=st.data())
def test_a_sentence_gets_the_same_answer_in_any_batch_and_alone(
    data: st.DataObject, runtime: Sessions, texts: list[list[int]], alone: dict[tuple[int, int], list[TargetHypothesis]]
) -> None:
    # Steps follow each other only where no sentence concerns Python.
    kinds = data.draw(st.sampled_from((range(len(KINDS)), STEADY_KINDS)))
    choices = st.tuples(st.integers(0, 12), st.integers(0, len(texts) - 1), st.sampled_from(kinds))
    plan = data.draw(st.lists(choices, min_size=1, max_size=12))
    asked = [(step, Sentence(source_ids=texts[text], options=KINDS[kind])) for step, text, kind in plan]
    leaving = data.draw(st.sets(st.integers(0, len(asked) - 1)))
    leavers = [(asked[index][0] + 2, asked[index][1]) for index in leaving]
    limit = StepLimit(
        steps=data.draw(st.sampled_from((1, 2, 5, 64))),
        seconds=math.inf,
        interrupt=Interrupt(),
        steps_after_done=data.draw(st.sampled_from((0, 1, 3, 64))),
    )
    decoder = Decoder(runtime)
    found = decoded(decoder, asked, leavers, limit)
    assert len(decoder) == 0
    for index, ((_, sentence), (_, text, kind)) in enumerate(zip(asked, plan, strict=True)):
        if index not in leaving or sentence in found:
            # Equal to the last bit, scores too.
            assert found[sentence] == alone[text, kind]


# With these shortlists searches end after two steps.
@pytest.mark.parametrize("runtime", RUNTIMES, indirect=True, ids=str)
def test_steps_follow_each_other_until_somebody_interrupts_or_the_time_is_over(
    runtime: Sessions, texts: list[list[int]]
) -> None:
    calm, interrupted = Interrupt(), Interrupt()
    interrupted.set()
    decoder = Decoder(runtime)
    decoder.admit([Sentence(source_ids=max(texts, key=len), options=options(4))])
    assert decoder.advance(StepLimit(64, math.inf, interrupted)).steps == 1
    assert decoder.advance(StepLimit(64, 0, calm)).steps == 1
    assert decoder.advance(StepLimit(3, math.inf, calm)).steps == (3 if runtime.step_functions else 1)
    interrupted.clear()
    assert (decoder.advance(StepLimit(64, math.inf, interrupted)).steps > 3) == (runtime.step_functions is not None)


def test_sentences_that_are_done_wait_for_others_as_long_as_they_are_told(
    runtime: Sessions, texts: list[list[int]]
) -> None:
    long, short = texts[-2:]
    # A beam of the last one fills pages, which those that are done leave to it.
    mixed = [(ids, LONGEST) for ids in (*[short] * 4, long * 4)] if runtime.cache_shape.past_names else []

    def search(
        asked: list[tuple[list[int], int]], after_done: int, seconds: float = math.inf
    ) -> tuple[int, list[list[TargetHypothesis]]]:
        decoder, calls = Decoder(runtime), 0
        sentences = [
            Sentence(source_ids=ids, options=options(4, length_penalty=1.0, max_target_length=limit))
            for ids, limit in asked
        ]
        decoder.admit(sentences)
        found: dict[Sentence, list[TargetHypothesis]] = {}
        while len(decoder):
            calls += 1
            found.update(decoder.advance(StepLimit(64, math.inf, Interrupt(), after_done, seconds)).done)
        return calls, [found[sentence] for sentence in sentences]

    has_kernels = runtime.step_functions is not None and runtime.cache_shape.dtype == np.float32
    for asked in filter(None, ([(ids, LIMIT) for ids in texts], mixed)):
        (impatient, expected), (patient, found) = search(asked, 0), search(asked, 64)
        assert found == expected
        # No step is begun that would end too late.
        assert search(asked, 64, 0.0) == (impatient, expected)
        assert (patient < impatient) == has_kernels


@settings(max_examples=3)
@given(steps=st.lists(st.integers(0, 60), min_size=2, max_size=4))
def test_a_translation_of_many_pages_is_the_same_in_any_batch_and_alone(
    steps: Sequence[int], runtime: Sessions, texts: list[list[int]]
) -> None:
    ids = texts[0]
    lengths = (LONGEST, 150, 100, 10)
    kinds = [options(4, min_target_length=length, max_target_length=length + 2) for length in lengths]
    expected = [decoded(Decoder(runtime), [(0, sentence)])[sentence] for sentence in _sentences(ids, kinds)]
    sentences = _sentences(ids, kinds[: len(steps)])
    found = decoded(Decoder(runtime), list(zip(steps, sentences, strict=True)))
    for sentence, hypotheses in zip(sentences, expected, strict=False):
        assert found[sentence] == hypotheses


def test_newcomers_of_any_lengths_are_encoded_at_once_where_padding_is_skipped(
    runtime: Sessions, texts: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs: list[set[str]] = []

    def record(kind: type[Binding | GraphBinding]) -> None:
        bind = kind.bind

        def recorded(binding: Any, bound: Mapping[str, Tensor], outputs: Mapping[str, Tensor]) -> None:
            inputs.append(set(bound))
            bind(binding, bound, outputs)

        monkeypatch.setattr(kind, "bind", recorded)

    record(Binding)
    record(GraphBinding)
    sentences = [Sentence(source_ids=ids, options=KINDS[0]) for ids in texts]
    Decoder(runtime).admit(sentences)
    assert (len(inputs) == 1) == runtime.skips_padding


def test_sentences_reuse_the_memory_of_those_that_have_left(runtime: Sessions, texts: list[list[int]]) -> None:
    decoder = Decoder(runtime)
    sizes = []
    for _ in range(6):
        found = decoded(decoder, [(step, Sentence(source_ids=ids, options=KINDS[0])) for step, ids in enumerate(texts)])
        assert len(found) == len(texts)
        sizes.append(sum(decoder.held_bytes.values()))
    assert len(set(sizes[2:])) == 1


def test_committed_tokens_never_change(runtime: Sessions, texts: list[list[int]]) -> None:
    sentences = [Sentence(source_ids=ids, options=options(2, prefix_ids=(300, 301, 302))) for ids in texts]
    decoder = Decoder(runtime)
    decoder.admit(sentences)
    committed: dict[Sentence, list[int]] = {sentence: [] for sentence in sentences}
    best: dict[Sentence, list[int]] = {}
    longest = 0
    while len(decoder):
        best.update((sentence, hypotheses[0].target_ids) for sentence, hypotheses in decoder.step())
        for sentence in sentences:
            if sentence not in best:
                now = decoder.committed(sentence)
                assert now[: len(committed[sentence])] == committed[sentence]
                committed[sentence] = now
                longest = max(longest, len(now))
    assert longest > 1
    for sentence in sentences:
        assert best[sentence][: len(committed[sentence])] == committed[sentence]


def test_partial_hypotheses_have_a_token_per_step(runtime: Sessions, texts: list[list[int]]) -> None:
    steps = 5
    sentences = [Sentence(source_ids=ids, options=options(4, min_target_length=steps)) for ids in texts]
    decoder = Decoder(runtime)
    decoder.admit(sentences)
    assert decoder.partial(sentences[0]) == []
    for _ in range(steps):
        assert decoder.step() == []
    for sentence in sentences:
        partial = decoder.partial(sentence)
        assert {(one.token_count, one.finished) for one in partial} == {(steps, False)}
        assert [one.score for one in partial] == sorted((one.score for one in partial), reverse=True)
