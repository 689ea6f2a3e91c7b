"""Explanations of translations: what is explained is what TranslateText finds, and what the torch model computes."""

from __future__ import annotations

import asyncio
import json
import math
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from prometheus_client import CollectorRegistry

from xuanzang.model.checkpoint import Checkpoint
from xuanzang.model.data.metadata import METADATA_FILE
from xuanzang.model.evaluation.attention_maps import attention_maps
from xuanzang.server.engine.calls.record import Call
from xuanzang.server.engine.engine import Engine
from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.engine.types import Hypothesis
from xuanzang.server.explanation.explainer import AttentionChoice, Explainer
from xuanzang.server.explanation.limits import ExplanationLimits
from xuanzang.server.metrics import Metrics
from xuanzang.translation.v1 import explanation_pb2 as pb

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
EVERYTHING = AttentionChoice(kinds=tuple(pb.AttentionKind.values()[1:]), heads=True)


class Explained(NamedTuple):
    """A sentence that was translated, and explained by the same engine."""

    translated: list[Hypothesis]
    hypotheses: list[Hypothesis]
    explanation: pb.Explanation


Explain = Callable[..., Explained]


def matrix(attention: pb.Attention) -> Any:
    return np.reshape(attention.weights, (attention.rows, attention.columns))


def single(value: float) -> float:
    """Return a number as the message has it."""
    return float(np.float32(value))


@contextmanager
def started(repository: Path, **settings: object) -> Iterator[Explain]:
    """Run an engine, and give a function that explains with it."""
    with asyncio.Runner() as runner, ExitStack() as stack:
        engine = Engine(
            repository,
            settings=EngineSettings.model_validate({"workers": 1, **settings}),
            metrics=Metrics(CollectorRegistry()),
        )
        explainer = Explainer(engine, ExplanationLimits())
        runner.run(engine.start())
        stack.callback(lambda: runner.run(engine.join(10)))
        stack.callback(explainer.release)

        def explain(text: str, *, choice: AttentionChoice = EVERYTHING, **changes: Any) -> Explained:
            return runner.run(_explained(engine, explainer, text, choice, changes))

        yield explain


@pytest.fixture(scope="module")
def open_explain(tiny_bundle_repository: Path, provider: str) -> Iterator[Callable[[bool], Explain]]:
    """Return a function that starts an engine, with or without kernels, and returns how to explain with it."""
    with ExitStack() as stack:
        yield lambda kernels: stack.enter_context(started(tiny_bundle_repository, provider=provider, kernels=kernels))


@pytest.fixture(scope="module")
def explain(open_explain: Callable[[bool], Explain]) -> Explain:
    return open_explain(True)


async def _explained(
    engine: Engine, explainer: Explainer, text: str, choice: AttentionChoice, changes: dict[str, Any]
) -> Explained:
    model = engine.models[0]
    options = replace(model.default_options, token_details=True, **changes)
    [translated] = await engine.translate(Call(texts=(text,), model=model, options=options))
    hypotheses, explanation = await explainer.explain(Call(texts=(text,), model=model, options=options), choice)
    return Explained(translated, hypotheses, explanation)


class FixedTokenizer:
    """A tokeniser for one text, whose ids are given: a model need not choose those that the text is encoded to."""

    def __init__(self, tokenizer: Any, ids: list[int]) -> None:
        self.encode = lambda _: ids
        self.pieces = tokenizer.pieces


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_what_is_explained_is_the_translation_and_the_search_that_found_it(
    explain: Explain, options: dict[str, Any]
) -> None:
    for text in TEXTS[:2]:
        explained = explain(text, **options)
        assert explained.hypotheses == explained.translated
        best, tokens = explained.hypotheses[0], explained.explanation.target_tokens
        assert [token.score for token in tokens] == [single(detail.score) for detail in best.tokens]
        assert [token.text for token in tokens] == [detail.text for detail in best.tokens]
        spans = [explained.explanation.source_tokens[token.source_token] for token in tokens]
        assert [(s.start, s.end) for s in spans] == [(d.source_start, d.source_end) for d in best.tokens]
        require_whole_tree(explained, options.get("beam_size", 4))
        require_path_of_the_best(explained)


def require_whole_tree(explained: Explained, beam_size: int) -> None:
    """Check that the steps of a search hold together from the first to the last."""
    steps = explained.explanation.search_steps
    before: set[int | None] = {None}
    previous: Sequence[pb.SearchCandidate] = ()
    for step in steps:
        kept = {i for i, each in enumerate(step.candidates) if each.fate == pb.CANDIDATE_FATE_KEPT}
        assert {each.parent if each.HasField("parent") else None for each in step.candidates} <= before
        assert len(kept) <= beam_size
        for each in step.candidates:
            assert each.reason or each.fate == pb.CANDIDATE_FATE_KEPT
            if each.HasField("parent") and each.HasField("score"):
                assert each.score <= (previous[each.parent].score or 0.0) + 1e-6
        previous, before = step.candidates, {*kept}
    assert not before, "nothing lives on after the last step"
    ranks = sorted(each.rank for step in steps for each in step.candidates if each.rank)
    assert ranks == list(range(1, len(explained.hypotheses) + 1))


def require_path_of_the_best(explained: Explained) -> None:
    """Check that the path of the best hypothesis sums to its score."""
    tokens = explained.explanation.target_tokens
    steps = zip(explained.explanation.search_steps, tokens, strict=False)
    path = [step.candidates[token.candidate] for step, token in steps]
    assert [each.id for each in path] == [token.id for token in tokens]
    totals = np.cumsum([token.score for token in tokens])
    np.testing.assert_allclose([each.score or 0.0 for each in path], totals, atol=1e-5)
    assert (path[-1].rank, path[-1].fate) == (1, pb.CANDIDATE_FATE_FINISHED)
    assert path[-1].final_score == single(explained.hypotheses[0].score)


def test_attention_is_that_of_the_torch_model(explain: Explain, checkpoint: Checkpoint) -> None:
    for text in TEXTS:
        explained = explain(text)
        explanation = explained.explanation
        ids = [token.id for token in explanation.target_tokens]
        tokenizer: Any = FixedTokenizer(checkpoint.target_tokenizer, ids)
        oracle = attention_maps(replace(checkpoint, target_tokenizer=tokenizer), text, "")
        assert [token.piece for token in explanation.source_tokens] == oracle.source_pieces
        assert [token.piece for token in explanation.target_tokens] == oracle.target_output_pieces
        expected = {
            pb.ATTENTION_KIND_CROSS: oracle.cross_attention,
            pb.ATTENTION_KIND_ENCODER: oracle.encoder_self_attention,
            pb.ATTENTION_KIND_DECODER: oracle.decoder_self_attention,
        }
        for attention in explanation.attention:
            of_layer = expected[attention.kind][attention.layer]
            wanted = of_layer[attention.head] if attention.HasField("head") else of_layer.mean(axis=0)
            np.testing.assert_allclose(matrix(attention), wanted, atol=1e-4)


def test_alternatives_are_the_likeliest_tokens_of_the_torch_model(explain: Explain, checkpoint: Checkpoint) -> None:
    explained = explain(TEXTS[0], beam_size=4, min_target_length=0)
    tokens = explained.explanation.target_tokens
    model, ids = checkpoint.model, [token.id for token in tokens]
    source = torch.tensor([checkpoint.source_ids(TEXTS[0])])
    with torch.inference_mode():
        targets = torch.tensor([[model.config.bos_id, *ids[:-1]]])
        logits = model(source, torch.ones_like(source, dtype=torch.bool), targets)[0]
    log_probs = torch.log_softmax(logits.float(), dim=-1)
    log_probs[:, list(model.config.banned_ids)] = -math.inf
    for row, token in zip(log_probs, tokens, strict=True):
        assert token.score == pytest.approx(float(row[token.id]), abs=1e-3)
        best = torch.topk(row, 5).values.tolist()
        assert [each.score for each in token.alternatives] == pytest.approx(best, abs=1e-3)
        assert [float(row[each.id]) for each in token.alternatives] == pytest.approx(best, abs=1e-3)


def test_without_kernels_the_explanation_is_the_same(explain: Explain, open_explain: Callable[[bool], Explain]) -> None:
    with_kernels, without = explain(TEXTS[1]), open_explain(False)(TEXTS[1])
    for one, other in zip(with_kernels.explanation.attention, without.explanation.attention, strict=True):
        np.testing.assert_allclose(one.weights, other.weights, atol=1e-5)
    scores, others = (
        [each.score for each in explained.explanation.target_tokens] for explained in (with_kernels, without)
    )
    assert scores == pytest.approx(others, abs=1e-4)


def test_excluded_tokens_are_named_with_the_option_that_excluded_them(explain: Explain) -> None:
    steps = explain(
        TEXTS[0], min_target_length=3, suppressed_texts=("i",), no_repeat_ngram_size=1
    ).explanation.search_steps
    early = [each for step in steps[:3] for each in step.candidates if each.reason == pb.CANDIDATE_REASON_TOO_SHORT]
    assert early
    assert {each.piece for each in early} == {"</s>"}
    assert not any(each.reason == pb.CANDIDATE_REASON_TOO_SHORT for step in steps[3:] for each in step.candidates)
    assert any(each.reason == pb.CANDIDATE_REASON_SUPPRESSED for step in steps for each in step.candidates)
    assert any(each.reason == pb.CANDIDATE_REASON_REPEATED_NGRAM for step in steps for each in step.candidates)


def test_a_forced_end_is_the_last_step_of_its_explanation_and_costs_nothing(
    tiny_checkpoint: Path, export_tiny: Callable[..., Path], provider: str, tmp_path: Path
) -> None:
    forcing = tmp_path / "checkpoint"
    shutil.copytree(tiny_checkpoint, forcing)
    metadata = json.loads((forcing / METADATA_FILE).read_text(encoding="utf-8"))
    (forcing / METADATA_FILE).write_text(json.dumps(metadata | {"forces_end": True}), encoding="utf-8")
    export_tiny(checkpoint=forcing, repository=tmp_path / "models")
    with started(tmp_path / "models", provider=provider) as explain:
        explained = explain(TEXTS[4], max_target_length=4, min_target_length=3, num_hypotheses=2)
    explanation, best = explained.explanation, explained.hypotheses[0]
    assert explained.hypotheses == explained.translated
    assert len(explanation.search_steps) == 4
    last = explanation.search_steps[-1].candidates
    assert {each.fate for each in last} == {pb.CANDIDATE_FATE_FINISHED}
    assert {each.reason for each in last} == {pb.CANDIDATE_REASON_END_OF_SENTENCE}
    assert sorted(each.rank for each in last if each.rank) == [1, 2]
    [ended] = [each for each in last if each.rank == 1]
    assert ended.HasField("parent")
    assert ended.score == explanation.search_steps[-2].candidates[ended.parent].score
    assert ended.final_score == single(best.score)
    assert explanation.target_tokens[-1].id == ended.id
    assert explanation.target_tokens[-1].score == 0.0
