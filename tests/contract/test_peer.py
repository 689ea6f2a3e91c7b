"""The server's search against CTranslate2's on the same weights: an engine that shares no code with ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import ctranslate2
import pytest
from ctranslate2_spec import save_as_ctranslate2

from xuanzang.model.checkpoint import Checkpoint
from xuanzang.server.engine.decoding import TargetHypothesis
from xuanzang.server.engine.search import SearchOptions

LIMIT = 40
Serve = Callable[[Sequence[list[int]], Sequence[SearchOptions]], list[list[TargetHypothesis]]]


@pytest.fixture(scope="module")
def peer(checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> ctranslate2.Translator:
    folder = tmp_path_factory.mktemp("peer") / "model"
    save_as_ctranslate2(checkpoint, folder)
    return ctranslate2.Translator(str(folder), device="cpu", compute_type="float32", inter_threads=1, intra_threads=1)


@pytest.mark.parametrize(("beam_size", "penalty"), [(1, 1.0), (4, 1.0), (4, 0.6), (4, 0.0), (6, 1.0)])
def test_hypotheses_and_scores_are_those_of_ctranslate2(
    checkpoint: Checkpoint,
    serve: Serve,
    peer: ctranslate2.Translator,
    toy_pairs: list[tuple[str, str]],
    beam_size: int,
    penalty: float,
) -> None:
    tokenizer = checkpoint.source_tokenizer
    rows = tokenizer.encode_all([source for source, _ in toy_pairs[::9]])
    options = SearchOptions(
        beam_size=beam_size,
        num_hypotheses=beam_size,
        length_penalty=penalty,
        min_target_length=0,
        max_target_length=LIMIT,
    )
    found = serve(rows, [options] * len(rows))
    expected = peer.translate_batch(
        [tokenizer.pieces(ids) for ids in rows],
        beam_size=beam_size,
        num_hypotheses=beam_size,
        length_penalty=penalty,
        max_decoding_length=LIMIT,
        min_decoding_length=0,
        return_scores=True,
    )
    for ours, theirs in zip(found, expected, strict=True):
        assert [checkpoint.target_tokenizer.pieces(h.target_ids) for h in ours] == theirs.hypotheses
        assert [h.score for h in ours] == pytest.approx(theirs.scores, abs=1e-4)
