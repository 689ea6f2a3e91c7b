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
from xuanzang.server.engine.decoding.decoder import Decoder
from xuanzang.server.engine.decoding.hypotheses import SearchOptions, Sentence, TargetHypothesis
from xuanzang.server.engine.runtime.sessions import Sessions

LIMIT = 30
Serve = Callable[[Sequence[list[int]], Sequence[SearchOptions]], list[list[TargetHypothesis]]]


@pytest.fixture(scope="module")
def sentences(checkpoint: Checkpoint, toy_pairs: list[tuple[str, str]]) -> list[list[int]]:
    texts = [source for source, _ in toy_pairs[::40]] + ["Ann有一只猫。我有两只狗。你有三只鸟。", "狗"]
    return checkpoint.source_tokenizer.encode_all(texts)


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
    checkpoint: Checkpoint, serve: Serve, sentences: list[list[int]], beam_size: int, penalty: float
) -> None:
    options = options_of(beam_size, penalty)
    found = serve(sentences, [options] * len(sentences))
    assert any(h.finished for hypotheses in found for h in hypotheses)
    for ids, hypotheses in zip(sentences, found, strict=True):
        assert_same(hypotheses, reference(checkpoint, ids, options))


@pytest.mark.parametrize(("shortest", "longest"), [(0, 1), (0, 5), (4, 12), (12, 12)])
def test_length_limits_are_those_of_the_torch_search(
    checkpoint: Checkpoint, serve: Serve, sentences: list[list[int]], shortest: int, longest: int
) -> None:
    options = options_of(4, 1.0, shortest, longest)
    for ids, found in zip(sentences, serve(sentences, [options] * len(sentences)), strict=True):
        assert_same(found, reference(checkpoint, ids, options))
        assert all(shortest <= len(h.target_ids) and h.token_count <= longest for h in found)


def test_sentences_with_different_options_share_a_batch(
    checkpoint: Checkpoint, serve: Serve, sentences: list[list[int]]
) -> None:
    mixed = [options_of(1 + i % 5, (0.0, 1.0)[i % 2], i % 3, 10 + i) for i in range(len(sentences))]
    for ids, options, found in zip(sentences, mixed, serve(sentences, mixed), strict=True):
        assert_same(found, reference(checkpoint, ids, options))


def test_discarded_sentences_do_not_affect_the_others(
    checkpoint: Checkpoint, runtime: Sessions, sentences: list[list[int]]
) -> None:
    options = options_of(3, shortest=6)
    tasks = [Sentence(source_ids=ids, options=options) for ids in sentences]
    decoder = Decoder(runtime)
    decoder.admit(tasks)
    assert decoder.step() == []
    decoder.discard(tasks[1:-1])
    assert len(decoder) == 2
    found: dict[Sentence, list[TargetHypothesis]] = {}
    while len(decoder):
        found.update(decoder.step())
    assert set(found) == {tasks[0], tasks[-1]}
    for task in (tasks[0], tasks[-1]):
        assert_same(found[task], reference(checkpoint, task.source_ids, options))


def test_a_sentence_does_not_depend_on_its_batch(serve: Serve, sentences: list[list[int]]) -> None:
    mixed = [options_of(1 + i % 4) for i in range(len(sentences))]
    together = serve(sentences, mixed)
    for ids, options, in_batch in zip(sentences, mixed, together, strict=True):
        [alone] = serve([ids], [options])
        assert [h.target_ids for h in alone] == [h.target_ids for h in in_batch]
        assert [h.score for h in alone] == pytest.approx([h.score for h in in_batch], abs=1e-5)
