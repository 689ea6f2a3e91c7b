"""The tree of searches over random tables of log-probabilities."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from search_options import search_options

from xuanzang.server.engine.calls.record import Call
from xuanzang.server.engine.decoding.beam_search import BeamSearch
from xuanzang.server.engine.decoding.hypotheses import (
    RecordedStep,
    SearchOptions,
    SearchRecorder,
    SearchRules,
    TargetHypothesis,
)
from xuanzang.server.engine.decoding.logit_edits import hypothesis_edits
from xuanzang.server.engine.decoding.search_state import Candidates
from xuanzang.server.engine.engine import Engine
from xuanzang.server.engine.errors import OverloadedError
from xuanzang.server.engine.types import DecodingOptions
from xuanzang.server.explanation.explainer import AttentionChoice, Explainer
from xuanzang.server.explanation.limits import ExplanationLimits
from xuanzang.server.explanation.recording import MAX_CANDIDATES, SearchTree, path_of
from xuanzang.server.metrics import Metrics
from xuanzang.translation.v1 import explanation_pb2 as pb

VOCAB, EOS, LIMIT = 9, 2, 7


def log_probs(seed: int, options: SearchOptions, tokens: Sequence[int]) -> Any:
    """Return the log-probabilities after some tokens, [vocab]: random ones of the step, edited as options ask."""
    logits = np.random.default_rng((seed, len(tokens))).normal(size=VOCAB)
    for token, edit in hypothesis_edits(options, tokens, eos_id=EOS).items():
        logits[token] += edit.bias
    logits -= logits.max()
    return logits - np.log(np.exp(logits).sum())


def gain(seed: int, options: SearchOptions, tokens: Sequence[int], token: int) -> float:
    """Return what a token adds to the score of a hypothesis."""
    forced = options.rules.forces_end and token == EOS and len(tokens) + 1 == LIMIT
    return 0.0 if forced else float(log_probs(seed, options, tokens)[token])


def search(seed: int, options: SearchOptions) -> list[TargetHypothesis]:
    """Search one sentence, as the decoder does."""
    beam_size = options.decoding.beam_size
    beams = BeamSearch(beam_size, start_id=1, eos_id=EOS)
    beams.join(np.array([0]), [options])
    live: list[list[int]] = [[]] * beam_size
    for step in itertools.count():
        gains = np.stack([log_probs(seed, options, tokens) for tokens in live])
        totals = (beams.beams.scores[0][:, None] + gains).ravel().astype(np.float32)
        best = np.argsort(-totals, kind="stable")[: 2 * beam_size]
        candidates = Candidates(totals[best][None], (best % VOCAB)[None], (best // VOCAB)[None])
        done = beams.advance(candidates, np.zeros((1, beam_size, 1), np.float32))
        if done:
            return done[0][1]
        parents, added = beams.beams.parents[0].tolist(), beams.beams.token_ids[0].tolist()
        live = [[*live[parent], token] for parent, token in zip(parents, added, strict=True)]
        assert step < 20
    raise AssertionError


def tree_of(seed: int, **changes: Any) -> tuple[list[pb.SearchStep], list[TargetHypothesis], SearchOptions]:
    recorder = SearchRecorder(max_steps=100)
    options = search_options(max_target_length=LIMIT, recorder=recorder, **changes)
    found = search(seed, options)
    tree = SearchTree(options, found, eos_id=EOS, piece_of=str)
    return list(tree.steps(recorder.steps)), found, options


def ways(steps: Sequence[pb.SearchStep], number: int, candidate: pb.SearchCandidate) -> list[int]:
    """Return the tokens that lead to a candidate, itself included."""
    before: list[int] = []
    if candidate.HasField("parent"):
        before = ways(steps, number - 1, steps[number - 1].candidates[candidate.parent])
    return [*before, candidate.id]


OPTIONS = st.fixed_dictionaries(
    {
        "beam_size": st.integers(1, 5),
        "length_penalty": st.sampled_from([0.0, 0.6, 1.0]),
        "min_target_length": st.integers(0, 4),
        "no_repeat_ngram_size": st.integers(0, 2),
        "suppressed_sequences": st.sampled_from([(), ((5,),), ((3, 4), (6,))]),
        "prefix_ids": st.sampled_from([(), (4,), (4, 7)]),
        "rules": st.sampled_from([SearchRules(), SearchRules(forces_end=True), SearchRules(True, True)]),
    }
)


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), changes=OPTIONS)
def test_every_candidate_has_a_parent_that_was_kept_and_the_sum_of_its_path(seed: int, changes: dict[str, Any]) -> None:
    steps, _, options = tree_of(seed, **changes)
    for number, step in enumerate(steps):
        for each in step.candidates:
            if each.HasField("parent"):
                assert steps[number - 1].candidates[each.parent].fate == pb.CANDIDATE_FATE_KEPT
            if each.HasField("score"):
                tokens = ways(steps, number, each)
                gains = [gain(seed, options, tokens[:place], token) for place, token in enumerate(tokens)]
                assert each.score == pytest.approx(sum(gains), abs=1e-3)


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), changes=OPTIONS)
def test_the_ranked_hypotheses_are_those_found(seed: int, changes: dict[str, Any]) -> None:
    steps, found, _ = tree_of(seed, **changes)
    assert found == search(seed, search_options(max_target_length=LIMIT, **changes)), "as unrecorded"
    ranked = [(each.rank, number, each) for number, step in enumerate(steps) for each in step.candidates if each.rank]
    ranked.sort(key=lambda item: item[0] or 0)
    for (_, number, each), hypothesis in zip(ranked, found, strict=True):
        tokens = [*hypothesis.target_ids, *([EOS] if hypothesis.finished else [])]
        assert ways(steps, number, each) == tokens
        assert each.final_score == float(np.float32(hypothesis.score))
        assert each.reason == (
            pb.CANDIDATE_REASON_END_OF_SENTENCE if hypothesis.finished else pb.CANDIDATE_REASON_MAX_LENGTH
        )
        path = path_of(tokens, steps)
        assert [step.candidates[index].id for step, index in zip(steps, path, strict=False)] == tokens


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), changes=OPTIONS)
def test_excluded_tokens_are_exactly_those_that_options_forbid(seed: int, changes: dict[str, Any]) -> None:
    steps, _, _ = tree_of(seed, **changes)
    size, minimum = changes["no_repeat_ngram_size"], changes["min_target_length"]
    for number, step in enumerate(steps):
        for each in step.candidates:
            tokens = ways(steps, number, each)
            grams = [tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)] if size else []
            ends_early = each.id == EOS and number < minimum
            suppressed = any(tuple(tokens[-len(s) :]) == s for s in changes["suppressed_sequences"])
            repeats = bool(grams) and grams[-1] in grams[:-1]
            if number < len(changes["prefix_ids"]):
                assert each.reason in (pb.CANDIDATE_REASON_FORCED, pb.CANDIDATE_REASON_SEARCH_OVER)
            elif not each.HasField("score"):
                assert {
                    pb.CANDIDATE_REASON_TOO_SHORT: ends_early,
                    pb.CANDIDATE_REASON_SUPPRESSED: suppressed,
                    pb.CANDIDATE_REASON_REPEATED_NGRAM: repeats,
                }[each.reason or pb.CANDIDATE_REASON_FORCED]
            else:
                assert not any((ends_early, suppressed, repeats))


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), beam_size=st.integers(1, 5))
def test_where_the_end_is_forced_it_is_all_that_is_considered_and_costs_nothing(seed: int, beam_size: int) -> None:
    rules = SearchRules(forces_end=True)
    steps, found, _ = tree_of(seed, beam_size=beam_size, min_target_length=LIMIT - 1, rules=rules)
    assert len(steps) == LIMIT
    assert {each.id for each in steps[-1].candidates} == {EOS}
    assert {each.fate for each in steps[-1].candidates} == {pb.CANDIDATE_FATE_FINISHED}
    before = [each for each in steps[-2].candidates if each.fate == pb.CANDIDATE_FATE_KEPT]
    assert sorted(each.score or 0.0 for each in steps[-1].candidates) == sorted(each.score or 0.0 for each in before)
    assert [hypothesis.finished for hypothesis in found] == [True]


def test_more_candidates_than_are_shown_are_counted() -> None:
    sequences = tuple((token,) for token in range(100, 100 + MAX_CANDIDATES))
    options = search_options(beam_size=1, suppressed_sequences=sequences)
    tree = SearchTree(options, [], eos_id=EOS, piece_of=str)
    recorded = RecordedStep(candidates=[(-1.0, 3, 0), (-2.0, 4, 0)], live=[(3, 0)], endings=[], is_last=False)
    [step] = tree.steps([recorded])
    assert (len(step.candidates), step.omitted_candidates) == (MAX_CANDIDATES, 2)
    assert [each.fate for each in step.candidates[:2]] == [pb.CANDIDATE_FATE_KEPT, pb.CANDIDATE_FATE_PRUNED]


def test_steps_beyond_the_limit_are_counted_and_another_search_begins_anew() -> None:
    recorder = SearchRecorder(max_steps=2)
    step = RecordedStep(candidates=[], live=[], endings=[], is_last=False)
    recorder.begin(0)
    for _ in range(3):
        recorder.add(step)
    assert (len(recorder.steps), recorder.step_count, recorder.searches) == (2, 3, 1)
    recorder.begin(4)
    assert (recorder.steps, recorder.step_count, recorder.searches) == ([], 0, 2)
    assert recorder.no_repeat_ngram_size == 4


LABELS = {"model": "small", "version": "1"}


def explain(engine: Engine, explainer: Explainer, options: DecodingOptions) -> Any:
    return explainer.explain(Call(texts=("a b",), model=engine.models[0], options=options), AttentionChoice())


def counted(metrics: Metrics, outcome: str) -> float | None:
    return metrics.registry.get_sample_value("nmt_explanations_total", LABELS | {"outcome": outcome})


async def test_the_limit_holds_at_once(engine: Engine, script: Any, options: DecodingOptions, metrics: Metrics) -> None:
    explainer = Explainer(engine, ExplanationLimits(max_explanations=2))
    script.allow(0)
    running = [asyncio.create_task(explain(engine, explainer, options)) for _ in range(2)]
    await script.until(lambda script: script.blocked)
    with pytest.raises(OverloadedError, match="2 translations are being explained") as raised:
        await explain(engine, explainer, options)
    assert raised.value.retry_after_seconds > 0
    assert counted(metrics, "refused") == 1
    # Those who translate are not refused.
    translating = asyncio.create_task(engine.translate(Call(texts=("a",), model=engine.models[0], options=options)))
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    script.allow(1000)
    assert await translating
    assert counted(metrics, "failed") == 2
    # The places are free again.
    script.allow(0)
    again = asyncio.create_task(explain(engine, explainer, options))
    await script.until(lambda script: script.blocked)
    again.cancel()
    await asyncio.gather(again, return_exceptions=True)
    assert counted(metrics, "refused") == 1
