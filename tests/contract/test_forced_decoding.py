"""What is shown of a search that is followed once more, in every number format, with and without a shortlist."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from decoded import decoded
from search_options import search_options

from xuanzang.model.checkpoint import Checkpoint
from xuanzang.model.data.shortlist import Shortlist
from xuanzang.server.bundles.repository import load_bundle
from xuanzang.server.engine.decoding.decoder import Decoder
from xuanzang.server.engine.decoding.hypotheses import SearchOptions, Sentence, TargetHypothesis
from xuanzang.server.engine.runtime.sessions import Sessions
from xuanzang.server.explanation.explainer import head_weights
from xuanzang.server.explanation.forced_decoding import AttentionGraphs, ForcedDecoding, encoder_states

TEXTS = ["我有三只猫。", "Ann有一只猫。我有两只狗。你有三只鸟。" * 2, "狗"]
OPTIONS = [
    {"beam_size": 4},
    {"beam_size": 1, "repetition_penalty": 1.4, "no_repeat_ngram_size": 2},
    {"beam_size": 3, "prefix_ids": (300, 280), "min_target_length": 8, "suppressed_sequences": ((290,), (285, 286))},
]
# Sums of 8-bit products, and 16-bit floats, round differently in a beam and alone.
CASES = [
    ("float32", False, True, 1e-4),
    ("int8", True, False, 1e-4),
    ("int8", True, True, 1e-4),
    ("float16", True, False, 2e-2),
]


@pytest.fixture(scope="module", params=CASES, ids=str)
def opened(
    request: pytest.FixtureRequest, checkpoint: Checkpoint, export_tiny: Callable[..., Path], provider: str
) -> tuple[AttentionGraphs, float]:
    """Return the graphs of the tiny model in one form, and how far its log-probabilities may differ."""
    precision, kernels, shortlist, tolerance = request.param
    chosen = None
    if shortlist:
        suggested = (np.arange(checkpoint.model.config.source_vocab_size)[:, None] + np.arange(3)) % 300
        always = np.array([*range(4), *range(270, 300)], np.int32)
        chosen = Shortlist(suggested.astype(np.int32), always)
    bundle = load_bundle(export_tiny(precision=precision, shortlist=chosen))
    sessions = Sessions(bundle, provider=provider, intra_op_threads=1, shortlist=shortlist, kernels=kernels)
    model: Any = SimpleNamespace(sessions=sessions, bundle=bundle)
    return AttentionGraphs(model), tolerance


def searched(sessions: Sessions, source_ids: list[int], options: SearchOptions) -> TargetHypothesis:
    [[best]] = decoded(Decoder(sessions), [(0, Sentence(source_ids=source_ids, options=options))]).values()
    return best


@pytest.mark.parametrize("changes", OPTIONS, ids=str)
def test_following_a_search_finds_its_scores_and_its_attention(
    opened: tuple[AttentionGraphs, float], checkpoint: Checkpoint, changes: dict[str, Any]
) -> None:
    graphs, tolerance = opened
    options = search_options(max_target_length=30, token_details=True, **changes)
    for source_ids in checkpoint.source_tokenizer.encode_all(TEXTS):
        best = searched(graphs.sessions, source_ids, options)
        tokens = [*best.target_ids, *([graphs.sessions.special_ids.eos_id] if best.finished else [])]
        states = ForcedDecoding(graphs, source_ids, options).follow(tokens, stopped=lambda: False)
        assert best.details
        for token, score, likeliest in zip(tokens, best.details.scores, states.alternatives, strict=True):
            assert dict(likeliest).get(token, score) == pytest.approx(score, abs=10 * tolerance)
            assert likeliest[0][1] >= score - 10 * tolerance
            assert all(each <= 1e-6 for _, each in likeliest)
        averaged = head_weights(*states.cross[-1]).mean(axis=0)
        np.testing.assert_allclose(averaged.sum(axis=0), best.details.attention[: len(source_ids)], atol=0.1)
        aligned = averaged[np.arange(len(tokens)), best.details.alignment]
        np.testing.assert_allclose(aligned, averaged.max(axis=1), atol=10 * tolerance)


def test_the_encoder_shows_every_layer(opened: tuple[AttentionGraphs, float], checkpoint: Checkpoint) -> None:
    graphs, _ = opened
    [source_ids, *_] = checkpoint.source_tokenizer.encode_all(TEXTS)
    states = encoder_states(graphs, source_ids)
    assert len(states) == checkpoint.model.config.num_encoder_layers
    for queries, keys in states:
        assert np.ptp(keys) > 0
        np.testing.assert_allclose(head_weights(queries, keys).sum(axis=-1), 1.0, atol=1e-5)
