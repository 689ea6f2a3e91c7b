"""Translations that must hold phrases: the best of all that do, with the scores that the model gives them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from search_options import search_options

from xuanzang.model.checkpoint import Checkpoint
from xuanzang.server.engine.decoding.hypotheses import SearchOptions, TargetHypothesis
from xuanzang.server.engine.decoding.phrase_automaton import PhraseAutomaton, RequiredPhrase, compile_phrases
from xuanzang.text.types import Variant

Serve = Callable[[Sequence[list[int]], Sequence[SearchOptions]], list[list[TargetHypothesis]]]


def automaton(*phrases: Sequence[int], count: int = 1) -> PhraseAutomaton:
    variants = [(Variant(tuple(ids), guards_start=False, guards_end=False),) for ids in phrases]
    required = [RequiredPhrase(variants=each, count=count) for each in variants]
    return compile_phrases(required, np.zeros(1000, np.int8))


def holds(ids: Sequence[int], phrase: Sequence[int]) -> int:
    return sum(list(ids[start : start + len(phrase)]) == list(phrase) for start in range(len(ids)))


@pytest.fixture(scope="module")
def sources(checkpoint: Checkpoint, toy_pairs: list[tuple[str, str]]) -> list[list[int]]:
    return checkpoint.source_tokenizer.encode_all([source for source, _ in toy_pairs[::50]])


def decode(serve: Serve, sources: Sequence[list[int]], options: SearchOptions) -> list[TargetHypothesis]:
    return [found[0] for found in serve(sources, [options] * len(sources))]


@pytest.mark.parametrize(
    "phrases", [((300,),), ((300, 301, 302),), ((300, 301), (310,)), ((300, 301), (301, 302)), ((300, 300), (300, 301))]
)
@pytest.mark.parametrize("beam_size", [2, 4, 7])
def test_every_hypothesis_holds_its_phrases(
    serve: Serve, sources: list[list[int]], phrases: Sequence[Sequence[int]], beam_size: int
) -> None:
    options = search_options(beam_size=beam_size, num_hypotheses=2, max_target_length=24, phrases=automaton(*phrases))
    for found in serve(sources, [options] * len(sources)):
        assert len(found) == 2
        for hypothesis in found:
            assert all(holds(hypothesis.target_ids, phrase) for phrase in phrases)


def test_a_phrase_may_be_required_several_times(serve: Serve, sources: list[list[int]]) -> None:
    options = search_options(max_target_length=24, phrases=automaton((300, 301), count=3))
    for hypothesis in decode(serve, sources, options):
        assert holds(hypothesis.target_ids, (300, 301)) >= 3


def test_scores_are_the_log_probabilities_of_the_model(
    serve: Serve, sources: list[list[int]], checkpoint: Checkpoint
) -> None:
    phrases = automaton((300, 301), (310,))
    options = search_options(length_penalty=0.0, max_target_length=16, phrases=phrases)
    for source, hypothesis in zip(sources, decode(serve, sources, options), strict=True):
        expected = teacher_forced(checkpoint, source, hypothesis)
        assert hypothesis.score == pytest.approx(expected, abs=1e-3)
        assert holds(hypothesis.target_ids, (310,))


def teacher_forced(checkpoint: Checkpoint, source: list[int], hypothesis: TargetHypothesis) -> float:
    """Return the summed log-probability that torch gives a hypothesis."""
    config = checkpoint.model.config
    target = [*hypothesis.target_ids, *([config.eos_id] if hypothesis.finished else [])]
    with torch.no_grad():
        ids, mask = torch.tensor([source]), torch.ones((1, len(source)), dtype=torch.bool)
        logits = checkpoint.model(ids, mask, torch.tensor([[config.bos_id, *target[:-1]]]))
    gains = torch.log_softmax(logits[0].double(), dim=-1)
    return float(gains[torch.arange(len(target)), torch.tensor(target)].sum())
