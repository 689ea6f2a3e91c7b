"""The server's search against the model's search on the same weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from search_options import search_options

from xuanzang.model.beams import Hypothesis
from xuanzang.model.checkpoint import Checkpoint
from xuanzang.model.search import beam_search
from xuanzang.model.tokenizer import PAD_ID
from xuanzang.server.engine.decoding.hypotheses import SearchOptions, TargetHypothesis

LIMIT = 30
Serve = Callable[[Sequence[list[int]], Sequence[SearchOptions]], list[list[TargetHypothesis]]]


def options_of(beam_size: int, penalty: float = 1.0, shortest: int = 0, longest: int = LIMIT) -> SearchOptions:
    return search_options(
        beam_size=beam_size,
        num_hypotheses=beam_size,
        length_penalty=penalty,
        min_target_length=shortest,
        max_target_length=longest,
    )


def reference(checkpoint: Checkpoint, ids: list[int], options: SearchOptions) -> list[Hypothesis]:
    source = torch.tensor([ids])
    [found] = beam_search(
        checkpoint.model,
        source,
        source != PAD_ID,
        beam_size=options.decoding.beam_size,
        num_hypotheses=options.decoding.num_hypotheses,
        length_penalty=options.decoding.length_penalty,
        min_target_length=options.decoding.min_target_length,
        max_target_length=options.max_target_length,
    )
    return found


def assert_same(found: list[TargetHypothesis], expected: list[Hypothesis]) -> None:
    assert [h.target_ids for h in found] == [h.target_ids for h in expected]
    assert [h.score for h in found] == pytest.approx([h.score for h in expected], abs=1e-4)
    assert [h.finished for h in found] == [h.finished for h in expected]


@pytest.mark.parametrize("beam_size", [1, 2, 4, 7])
@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0])
def test_server_search_equals_torch_search(
    checkpoint: Checkpoint, serve: Serve, texts: list[list[int]], beam_size: int, penalty: float
) -> None:
    options = options_of(beam_size, penalty)
    found = serve(texts, [options] * len(texts))
    assert any(h.finished for hypotheses in found for h in hypotheses)
    for ids, hypotheses in zip(texts, found, strict=True):
        assert_same(hypotheses, reference(checkpoint, ids, options))


@pytest.mark.parametrize(("shortest", "longest"), [(0, 1), (0, 5), (4, 12), (12, 12)])
def test_length_limits_are_those_of_the_torch_search(
    checkpoint: Checkpoint, serve: Serve, texts: list[list[int]], shortest: int, longest: int
) -> None:
    options = options_of(4, 1.0, shortest, longest)
    for ids, found in zip(texts, serve(texts, [options] * len(texts)), strict=True):
        assert_same(found, reference(checkpoint, ids, options))
        assert all(shortest <= len(h.target_ids) and h.token_count <= longest for h in found)
