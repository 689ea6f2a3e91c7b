"""The server's search against that of CTranslate2, which shares no code with it, on the same weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import ctranslate2
import pytest
from ctranslate2_spec import save_as_ctranslate2
from search_options import search_options

from xuanzang.model.checkpoint import Checkpoint
from xuanzang.server.engine.decoding.hypotheses import SearchOptions, TargetHypothesis

LIMIT = 40
Serve = Callable[[Sequence[list[int]], Sequence[SearchOptions]], list[list[TargetHypothesis]]]


@pytest.fixture(scope="module")
def peer(checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> ctranslate2.Translator:
    folder = tmp_path_factory.mktemp("peer") / "model"
    save_as_ctranslate2(checkpoint, folder)
    return ctranslate2.Translator(str(folder), device="cpu", compute_type="float32", inter_threads=1, intra_threads=1)


def assert_same(
    ours: Sequence[TargetHypothesis], theirs: ctranslate2.TranslationResult, checkpoint: Checkpoint
) -> None:
    assert [checkpoint.target_tokenizer.pieces(h.target_ids) for h in ours] == theirs.hypotheses
    assert [h.score for h in ours] == pytest.approx(theirs.scores, abs=1e-4)


@pytest.mark.parametrize("beams", [(1, 1), (4, 1), (4, 4)], ids="beams {0[0]}, hypotheses {0[1]}".format)
@pytest.mark.parametrize(
    "penalties", list(product([0.0, 0.6, 1.0], [0.0, 0.2, 1.0])), ids="length {0[0]}, coverage {0[1]}".format
)
def test_hypotheses_and_scores_are_those_of_ctranslate2(
    checkpoint: Checkpoint,
    serve: Serve,
    peer: ctranslate2.Translator,
    toy_pairs: list[tuple[str, str]],
    penalties: tuple[float, float],
    beams: tuple[int, int],
) -> None:
    length_penalty, coverage_penalty = penalties
    beam_size, num_hypotheses = beams
    tokenizer = checkpoint.source_tokenizer
    sources = tokenizer.encode_all([source for source, _ in toy_pairs[::9]])
    shared: dict[str, Any] = {
        "beam_size": beam_size,
        "num_hypotheses": num_hypotheses,
        "length_penalty": length_penalty,
        "coverage_penalty": coverage_penalty,
    }
    options = search_options(min_target_length=0, max_target_length=LIMIT, **shared)
    found = serve(sources, [options] * len(sources))
    for ids, ours in zip(sources, found, strict=True):
        # One by one: in a batch CTranslate2 uses the attention of the first sentence for all.
        [theirs] = peer.translate_batch(
            [tokenizer.pieces(ids)],
            **shared,
            max_decoding_length=LIMIT,
            min_decoding_length=0,
            return_scores=True,
            # Its greedy search with a coverage penalty crashes unless it keeps the attention.
            return_attention=True,
        )
        assert_same(ours, theirs, checkpoint)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({"repetition_penalty": 1.3}, {"repetition_penalty": 1.3}),
        ({"no_repeat_ngram_size": 2}, {"no_repeat_ngram_size": 2}),
        ({"min_target_length": 6}, {"min_decoding_length": 6}),
    ],
)
def test_options_have_the_same_effect_as_in_ctranslate2(
    checkpoint: Checkpoint,
    serve: Serve,
    peer: ctranslate2.Translator,
    toy_pairs: list[tuple[str, str]],
    ours: dict[str, Any],
    theirs: dict[str, Any],
) -> None:
    tokenizer = checkpoint.source_tokenizer
    sources = tokenizer.encode_all([source for source, _ in toy_pairs[::19]])
    plain: dict[str, Any] = {"beam_size": 4, "num_hypotheses": 4, "length_penalty": 1.0, "max_target_length": LIMIT}
    found = serve(sources, [search_options(**{"min_target_length": 0, **plain, **ours})] * len(sources))
    without = serve(sources, [search_options(**{"min_target_length": 0, **plain})] * len(sources))
    assert [h[0].target_ids for h in found] != [h[0].target_ids for h in without]
    expected = peer.translate_batch(
        [tokenizer.pieces(ids) for ids in sources],
        beam_size=4,
        num_hypotheses=4,
        length_penalty=1.0,
        max_decoding_length=LIMIT,
        **{"min_decoding_length": 0, **theirs},
        return_scores=True,
    )
    for mine, other in zip(found, expected, strict=True):
        assert_same(mine, other, checkpoint)


def test_the_coverage_penalty_is_that_of_ctranslate2(
    checkpoint: Checkpoint, serve: Serve, peer: ctranslate2.Translator, toy_pairs: list[tuple[str, str]]
) -> None:
    tokenizer = checkpoint.source_tokenizer
    sources = tokenizer.encode_all([source for source, _ in toy_pairs[::19]])
    plain: dict[str, Any] = {"beam_size": 4, "num_hypotheses": 4, "length_penalty": 1.0}
    options: dict[str, Any] = {"min_target_length": 0, "max_target_length": LIMIT, **plain}
    without = serve(sources, [search_options(**options)] * len(sources))
    found = serve(sources, [search_options(**options, coverage_penalty=0.5)] * len(sources))
    assert [h[0].target_ids for h in found] != [h[0].target_ids for h in without]
    for ids, mine in zip(sources, found, strict=True):
        # One by one: in a batch CTranslate2 uses the attention of the first sentence for all.
        [other] = peer.translate_batch(
            [tokenizer.pieces(ids)],
            **{**plain, "max_decoding_length": LIMIT, "min_decoding_length": 0, "coverage_penalty": 0.5},
            return_scores=True,
        )
        assert_same(mine, other, checkpoint)


def test_suppressed_sequences_are_those_of_ctranslate2(
    checkpoint: Checkpoint, serve: Serve, peer: ctranslate2.Translator, toy_pairs: list[tuple[str, str]]
) -> None:
    tokenizer, target = checkpoint.source_tokenizer, checkpoint.target_tokenizer
    sources = tokenizer.encode_all([source for source, _ in toy_pairs[::19]])
    plain: dict[str, Any] = {"beam_size": 4, "num_hypotheses": 1, "length_penalty": 1.0}
    options: dict[str, Any] = {"min_target_length": 0, "max_target_length": LIMIT, **plain}
    free = serve(sources, [search_options(**options)] * len(sources))
    texts = [hypotheses[0].target_ids for hypotheses in free]
    forbidden = tuple({tuple(ids[: 1 + index % 3]) for index, ids in enumerate(texts[:6]) if ids})
    found = serve(sources, [search_options(**options, suppressed_sequences=forbidden)] * len(sources))
    expected = peer.translate_batch(
        [tokenizer.pieces(ids) for ids in sources],
        **{**plain, "max_decoding_length": LIMIT, "min_decoding_length": 0},
        suppress_sequences=[target.pieces(ids) for ids in forbidden],
        return_scores=True,
    )
    for mine, other in zip(found, expected, strict=True):
        assert_same(mine, other, checkpoint)


def test_a_forced_prefix_is_that_of_ctranslate2(
    checkpoint: Checkpoint, serve: Serve, peer: ctranslate2.Translator, toy_pairs: list[tuple[str, str]]
) -> None:
    tokenizer, target = checkpoint.source_tokenizer, checkpoint.target_tokenizer
    sources = tokenizer.encode_all([source for source, _ in toy_pairs[::19]])
    options: dict[str, Any] = {"beam_size": 4, "num_hypotheses": 4, "length_penalty": 1.0, "max_target_length": LIMIT}
    free = serve(sources, [search_options(**options, min_target_length=4)] * len(sources))
    # The fourth hypothesis is not what the search finds by itself.
    prefixes = [tuple(hypotheses[3].target_ids[:3]) for hypotheses in free]
    found = serve(sources, [search_options(**options, min_target_length=0, prefix_ids=prefix) for prefix in prefixes])
    expected = peer.translate_batch(
        [tokenizer.pieces(ids) for ids in sources],
        [target.pieces(list(prefix)) for prefix in prefixes],
        beam_size=4,
        num_hypotheses=4,
        length_penalty=1.0,
        max_decoding_length=LIMIT,
        min_decoding_length=0,
        return_scores=True,
    )
    for mine, other in zip(found, expected, strict=True):
        # CTranslate2 mostly skips a hypothesis that ends right after its prefix, and then continues longer.
        scores = {tuple(target.pieces(h.target_ids)): h.score for h in mine}
        shared = [rank for rank, pieces in enumerate(other.hypotheses) if tuple(pieces) in scores]
        assert shared
        for rank in shared:
            assert scores[tuple(other.hypotheses[rank])] == pytest.approx(other.scores[rank], abs=1e-4)
