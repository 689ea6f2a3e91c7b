"""Explanations of translations: what is explained is what TranslateText finds, and what the torch model computes."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from prometheus_client import CollectorRegistry

from xuanzang.model.attention_maps import attention_maps
from xuanzang.model.checkpoint import Checkpoint
from xuanzang.server.engine.engine import Engine
from xuanzang.server.engine.explanation.explainer import Explainer
from xuanzang.server.engine.explanation.types import (
    AttentionChoice,
    AttentionKind,
    CandidateFate,
    CandidateReason,
    Explanation,
    ExplanationLimits,
)
from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.engine.types import Hypothesis
from xuanzang.server.metrics import Metrics

TEXTS = ["我有三只猫。", "老师有十只马。", "Ann有一只虎。", "他们有两只鱼。", "我们有七只羊和六只牛。"]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"beam_size": 1},
    {"beam_size": 6, "num_hypotheses": 3},
    {"length_penalty": 0.0},
    {"beam_size": 3, "coverage_penalty": 0.4},
    {"repetition_penalty": 1.5, "no_repeat_ngram_size": 2},
    {"min_target_length": 6, "suppressed_texts": ("cat", "three", "have")},
    {"max_target_length": 5},
    {"target_prefix": "we have", "beam_size": 2},
]
EVERYTHING = AttentionChoice(kinds=tuple(AttentionKind), heads=True)


class Explained:
    """A sentence that was translated and explained by the same engine."""

    def __init__(self, translated: list[Hypothesis], hypotheses: list[Hypothesis], explanation: Explanation) -> None:
        self.translated, self.hypotheses, self.explanation = translated, hypotheses, explanation


Explain = Callable[..., Explained]


@pytest.fixture(scope="module")
def explain(tiny_bundle_repository: Path, provider: str) -> Explain:
    """Return a function that translates a text, and explains it."""

    def explain(text: str, *, kernels: bool = True, choice: AttentionChoice = EVERYTHING, **options: Any) -> Explained:
        return asyncio.run(_explained(tiny_bundle_repository, text, choice, options, provider, kernels=kernels))

    return explain


async def _explained(
    models: Path, text: str, choice: AttentionChoice, changes: dict[str, Any], provider: str, *, kernels: bool
) -> Explained:
    settings = EngineSettings(workers=1, provider=provider, kernels=kernels)
    async with _engine(models, settings) as engine:
        model = engine.models[0]
        options = replace(model.default_options, token_details=True, **changes)
        [translated] = await engine.translate([text], model=model, options=options, deadline=None)
        explainer = Explainer(engine, ExplanationLimits())
        hypotheses, explanation = await explainer.explain(
            text, model=model, options=options, choice=choice, deadline=None
        )
        explainer.release()
        return Explained(translated, hypotheses, explanation)


@asynccontextmanager
async def _engine(models: Path, settings: EngineSettings) -> Any:
    engine = Engine(models, settings=settings, metrics=Metrics(CollectorRegistry()))
    await engine.start()
    try:
        yield engine
    finally:
        await engine.join(10)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_what_is_explained_is_the_translation(explain: Explain, options: dict[str, Any]) -> None:
    for text in TEXTS[:2]:
        explained = explain(text, **options)
        assert explained.hypotheses == explained.translated
        best, tokens = explained.hypotheses[0], explained.explanation.target_tokens
        assert [token.score for token in tokens] == [detail.score for detail in best.tokens]
        assert [token.text for token in tokens] == [detail.text for detail in best.tokens]
        spans = [explained.explanation.source_tokens[token.source_token] for token in tokens]
        assert [(s.start, s.end) for s in spans] == [(d.source_start, d.source_end) for d in best.tokens]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_tree_holds_together_from_the_first_step_to_the_last(explain: Explain, options: dict[str, Any]) -> None:
    explained = explain(TEXTS[2], **options)
    steps, beam_size = explained.explanation.steps, options.get("beam_size", 4)
    before: set[int | None] = {None}
    for step in steps:
        kept = {i for i, each in enumerate(step.candidates) if each.fate is CandidateFate.KEPT}
        assert {each.parent for each in step.candidates} <= before
        assert len(kept) <= beam_size
        for each in step.candidates:
            assert (each.reason is None) == (each.fate is CandidateFate.KEPT and not _is_forced(each.reason))
            if each.parent is not None and each.score is not None:
                parent = steps[steps.index(step) - 1].candidates[each.parent]
                assert each.score <= (parent.score or 0.0) + 1e-6
        before = set(kept)
    assert not before, "nothing lives on after the last step"
    assert sorted(each.rank for step in steps for each in step.candidates if each.rank) == list(
        range(1, len(explained.hypotheses) + 1)
    )


def _is_forced(reason: CandidateReason | None) -> bool:
    return reason is CandidateReason.FORCED


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_path_of_the_best_hypothesis_sums_to_its_score(explain: Explain, options: dict[str, Any]) -> None:
    explained = explain(TEXTS[3], **options)
    explanation, best = explained.explanation, explained.hypotheses[0]
    path = [
        step.candidates[token.candidate]
        for step, token in zip(explanation.steps, explanation.target_tokens, strict=False)
    ]
    assert [each.token_id for each in path] == [token.token_id for token in explanation.target_tokens]
    totals = np.cumsum([token.score for token in explanation.target_tokens])
    np.testing.assert_allclose([each.score for each in path], totals, atol=1e-5)
    assert (path[-1].rank, path[-1].fate) == (1, CandidateFate.FINISHED)
    assert path[-1].final_score == best.score
    if not options.get("coverage_penalty"):
        length_penalty = options.get("length_penalty", 1.0)
        assert best.score == pytest.approx(totals[-1] / len(path) ** length_penalty, abs=1e-4) or length_penalty


def test_attention_is_that_of_the_torch_model(explain: Explain, checkpoint: Checkpoint) -> None:
    for text in TEXTS:
        explained = explain(text)
        oracle = attention_maps(checkpoint, text, explained.hypotheses[0].text)
        explanation = explained.explanation
        assert [token.piece for token in explanation.source_tokens] == oracle.source_pieces
        assert [token.piece for token in explanation.target_tokens] == oracle.target_output_pieces
        expected = {
            AttentionKind.CROSS: oracle.cross_attention,
            AttentionKind.ENCODER: oracle.encoder_self_attention,
            AttentionKind.DECODER: oracle.decoder_self_attention,
        }
        for attention in explanation.attention:
            of_layer = expected[attention.kind][attention.layer]
            wanted = of_layer.mean(axis=0) if attention.head is None else of_layer[attention.head]
            np.testing.assert_allclose(attention.weights, wanted, atol=1e-4)


def test_rows_of_attention_sum_to_one_and_the_mean_is_that_of_the_heads(explain: Explain) -> None:
    attention = explain(TEXTS[4]).explanation.attention
    for each in attention:
        np.testing.assert_allclose(each.weights.sum(axis=1), 1.0, atol=1e-5)
    for mean in (each for each in attention if each.head is None):
        heads = [e.weights for e in attention if (e.kind, e.layer) == (mean.kind, mean.layer) and e.head is not None]
        np.testing.assert_allclose(mean.weights, np.mean(heads, axis=0), atol=1e-6)


def test_alternatives_are_the_likeliest_tokens_of_the_torch_model(explain: Explain, checkpoint: Checkpoint) -> None:
    explained = explain(TEXTS[0], beam_size=4, min_target_length=0)
    tokens = explained.explanation.target_tokens
    model, ids = checkpoint.model, [token.token_id for token in tokens]
    source = torch.tensor([checkpoint.source_ids(TEXTS[0])])
    with torch.inference_mode():
        targets = torch.tensor([[model.config.bos_id, *ids[:-1]]])
        logits = model(source, torch.ones_like(source, dtype=torch.bool), targets)[0]
    log_probs = torch.log_softmax(logits.float(), dim=-1)
    log_probs[:, list(model.config.banned_ids)] = -math.inf
    for row, token in zip(log_probs, tokens, strict=True):
        assert token.score == pytest.approx(float(row[token.token_id]), abs=1e-3)
        best = torch.topk(row, 5).values.tolist()
        assert [each.score for each in token.alternatives] == pytest.approx(best, abs=1e-3)
        assert [float(row[each.token_id]) for each in token.alternatives] == pytest.approx(best, abs=1e-3)


def test_without_kernels_the_explanation_is_the_same(explain: Explain) -> None:
    with_kernels, without = explain(TEXTS[1]), explain(TEXTS[1], kernels=False)
    for one, other in zip(with_kernels.explanation.attention, without.explanation.attention, strict=True):
        np.testing.assert_allclose(one.weights, other.weights, atol=1e-5)
    for one, other in zip(with_kernels.explanation.target_tokens, without.explanation.target_tokens, strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-4)


def test_excluded_tokens_are_named_with_the_option_that_excluded_them(explain: Explain) -> None:
    steps = explain(TEXTS[0], min_target_length=3, suppressed_texts=("cat",)).explanation.steps
    early = [each for step in steps[:3] for each in step.candidates if each.reason is CandidateReason.TOO_SHORT]
    assert early
    assert {each.piece for each in early} == {"</s>"}
    assert not any(each.reason is CandidateReason.TOO_SHORT for step in steps[3:] for each in step.candidates)
    assert any(each.reason is CandidateReason.SUPPRESSED for step in steps for each in step.candidates)


def test_only_the_layers_and_kinds_that_are_asked_for_are_returned(explain: Explain) -> None:
    choice = AttentionChoice(kinds=(AttentionKind.DECODER,), layers=(1,))
    attention = explain(TEXTS[0], choice=choice).explanation.attention
    assert [(each.kind, each.layer, each.head) for each in attention] == [(AttentionKind.DECODER, 1, None)]
