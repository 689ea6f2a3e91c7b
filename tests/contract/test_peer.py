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
PLAIN: dict[str, Any] = {"beam_size": 4, "num_hypotheses": 4, "length_penalty": 1.0}
Serve = Callable[[Sequence[list[int]], Sequence[SearchOptions]], list[list[TargetHypothesis]]]
Prefixes = Sequence[tuple[int, ...]]


@pytest.fixture(scope="module")
def peer(checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> ctranslate2.Translator:
    folder = tmp_path_factory.mktemp("peer") / "model"
    save_as_ctranslate2(checkpoint, folder)
    return ctranslate2.Translator(str(folder), device="cpu", compute_type="float32", inter_threads=1, intra_threads=1)


class Engines:
    """Both engines with the same weights, and sentences for them."""

    def __init__(self, checkpoint: Checkpoint, serve: Serve, peer: ctranslate2.Translator, texts: list[str]) -> None:
        self.target = checkpoint.target_tokenizer
        self._pieces = checkpoint.source_tokenizer.pieces
        self._sources = checkpoint.source_tokenizer.encode_all(texts)
        self._serve = serve
        self._peer = peer

    def ours(self, prefixes: Prefixes = (), **options: Any) -> list[list[TargetHypothesis]]:
        """Return the hypotheses of the server's engine, by sentence."""
        options = {"min_target_length": 0, "max_target_length": LIMIT, **PLAIN, **options}
        each = [search_options(**options, prefix_ids=prefix) for prefix in prefixes]
        return self._serve(self._sources, each or [search_options(**options)] * len(self._sources))

    def theirs(self, prefixes: Prefixes = (), **options: Any) -> list[ctranslate2.TranslationResult]:
        """Return the hypotheses of CTranslate2, by sentence."""
        settings = {"min_decoding_length": 0, "max_decoding_length": LIMIT, "return_scores": True, **PLAIN, **options}
        begun: list[Any] = [[self.target.pieces(list(prefix))] for prefix in prefixes] or [None] * len(self._sources)
        # One by one: in a batch CTranslate2 uses the attention of the first sentence for all.
        return [
            self._peer.translate_batch([self._pieces(ids)], prefix, **settings)[0]
            for ids, prefix in zip(self._sources, begun, strict=True)
        ]

    def require_same(self, ours: list[list[TargetHypothesis]], theirs: list[ctranslate2.TranslationResult]) -> None:
        """Check that both have found the same hypotheses with the same scores."""
        for mine, other in zip(ours, theirs, strict=True):
            assert [self.target.pieces(each.target_ids) for each in mine] == other.hypotheses
            assert [each.score for each in mine] == pytest.approx(other.scores, abs=1e-4)


@pytest.fixture
def engines(
    checkpoint: Checkpoint, serve: Serve, peer: ctranslate2.Translator, toy_pairs: list[tuple[str, str]]
) -> Engines:
    return Engines(checkpoint, serve, peer, [source for source, _ in toy_pairs[::9]])


@pytest.mark.parametrize("beams", [(1, 1), (4, 1), (4, 4)], ids="beams {0[0]}, hypotheses {0[1]}".format)
@pytest.mark.parametrize(
    "penalties", list(product([0.0, 0.6, 1.0], [0.0, 0.2, 1.0])), ids="length {0[0]}, coverage {0[1]}".format
)
def test_hypotheses_and_scores_are_those_of_ctranslate2(
    engines: Engines, penalties: tuple[float, float], beams: tuple[int, int]
) -> None:
    names = ("beam_size", "num_hypotheses", "length_penalty", "coverage_penalty")
    shared: dict[str, Any] = dict(zip(names, (*beams, *penalties), strict=True))
    # Its greedy search with a coverage penalty crashes unless it keeps the attention.
    engines.require_same(engines.ours(**shared), engines.theirs(**shared, return_attention=True))


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({"repetition_penalty": 1.3}, {"repetition_penalty": 1.3}),
        ({"no_repeat_ngram_size": 2}, {"no_repeat_ngram_size": 2}),
        ({"min_target_length": 6}, {"min_decoding_length": 6}),
        ({"coverage_penalty": 0.5}, {"coverage_penalty": 0.5}),
    ],
)
def test_options_have_the_same_effect_as_in_ctranslate2(
    engines: Engines, ours: dict[str, Any], theirs: dict[str, Any]
) -> None:
    found = engines.ours(**ours)
    assert [each[0].target_ids for each in found] != [each[0].target_ids for each in engines.ours()]
    engines.require_same(found, engines.theirs(**theirs))


def test_suppressed_sequences_are_those_of_ctranslate2(engines: Engines) -> None:
    free = [hypotheses[0].target_ids for hypotheses in engines.ours(num_hypotheses=1)]
    forbidden = tuple({tuple(ids[: 1 + index % 3]) for index, ids in enumerate(free[:6]) if ids})
    found = engines.ours(num_hypotheses=1, suppressed_sequences=forbidden)
    pieces = [engines.target.pieces(ids) for ids in forbidden]
    engines.require_same(found, engines.theirs(num_hypotheses=1, suppress_sequences=pieces))


def test_a_forced_prefix_is_that_of_ctranslate2(engines: Engines) -> None:
    # The fourth hypothesis is not what the search finds by itself.
    prefixes = [tuple(hypotheses[3].target_ids[:3]) for hypotheses in engines.ours(min_target_length=4)]
    for mine, other in zip(engines.ours(prefixes), engines.theirs(prefixes), strict=True):
        # CTranslate2 mostly skips a hypothesis that ends right after its prefix, and then continues longer.
        scores = {tuple(engines.target.pieces(each.target_ids)): each.score for each in mine}
        shared = [rank for rank, pieces in enumerate(other.hypotheses) if tuple(pieces) in scores]
        assert shared
        for rank in shared:
            assert scores[tuple(other.hypotheses[rank])] == pytest.approx(other.scores[rank], abs=1e-4)
