"""Imported MarianMT models against transformers on the same weights: network, search and text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from peers import Peers
from transformers import MarianMTModel

from xuanzang.model.checkpoint import load_checkpoint
from xuanzang.model.importing.importer import import_model
from xuanzang.server.engine.decoding.hypotheses import SearchRules, TargetHypothesis
from xuanzang.server.engine.runtime.sessions import Sessions

LIMIT = 40
EOS = 0
KINDS: dict[str, dict[str, Any]] = {
    "6 + 6 layers, one vocabulary": {"encoder_layers": 6, "decoder_layers": 6},
    "12 + 2 layers, wider": {
        "encoder_layers": 12,
        "decoder_layers": 2,
        "d_model": 64,
        "encoder_attention_heads": 8,
        "decoder_attention_heads": 8,
    },
    "6 + 6 layers, two vocabularies": {"encoder_layers": 6, "decoder_layers": 6, "separate": True},
    "untied, not scaled, relu": {"tie_word_embeddings": False, "scale_embedding": False, "activation_function": "relu"},
    "two vocabularies, untied, renormalised": {
        "separate": True,
        "tie_word_embeddings": False,
        "generation": {"renormalize_logits": True},
    },
}


@pytest.fixture(scope="module", params=KINDS)
def peers(
    request: pytest.FixtureRequest, write_marian: Callable[..., MarianMTModel], tmp_path_factory: pytest.TempPathFactory
) -> Peers:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("marian")
    theirs = write_marian(folder / "directory", **KINDS[request.param])
    import_model(folder / "directory", folder / "checkpoint")
    ours = load_checkpoint(folder / "checkpoint")
    return Peers(theirs=theirs, ours=ours, words=(2, ours.model.config.source_vocab_size - 1))


def test_logits_are_those_of_transformers(peers: Peers) -> None:
    pad_id = peers.ours.model.config.pad_id
    target = torch.randint(2, pad_id, (12, 15), generator=torch.Generator().manual_seed(1))
    # Logits of banned pieces differ if their probability is given to the others.
    peers.require_same_logits(
        target, [piece for piece in range(peers.ours.model.config.target_vocab_size) if piece != pad_id]
    )


@pytest.fixture(scope="module")
def runtime(peers: Peers, open_imported: Callable[..., Sessions]) -> Sessions:
    return open_imported(peers.ours.folder)


@torch.inference_mode()
def mean_log_prob(peers: Peers, source_ids: list[int], target_ids: list[int]) -> float:
    """Return the mean log-probability of a translation, eos counted if it is short enough to have one."""
    ids = [peers.ours.model.config.bos_id, *target_ids, EOS][: LIMIT + 1]
    logits = peers.theirs(input_ids=torch.tensor([source_ids]), decoder_input_ids=torch.tensor([ids[:-1]])).logits[0]
    return float(logits.log_softmax(-1)[range(len(ids) - 1), ids[1:]].mean())


def difference(peers: Peers, source_ids: list[int], found: list[int], expected: list[int], beam_size: int) -> float:
    """Return the difference of the scores of two translations, as far as the search chose between them."""
    if beam_size == 1:  # greedy search chose only at the first difference
        first = next(i for i, pair in enumerate(zip([*found, EOS], [*expected, EOS], strict=False)) if len({*pair}) > 1)
        found, expected = found[: first + 1], expected[: first + 1]
    return abs(mean_log_prob(peers, source_ids, found) - mean_log_prob(peers, source_ids, expected))


@pytest.mark.parametrize(("beam_size", "penalty"), [(1, 1.0), (4, 1.0), (4, 0.6)])
def test_translations_are_those_of_transformers_token_for_token(
    peers: Peers, runtime: Sessions, beam_size: int, penalty: float
) -> None:
    found = compared(peers, runtime, 200, beam_size=beam_size, length_penalty=penalty)
    assert len({tuple(hypothesis.target_ids) for hypothesis in found}) > 50
    assert 50 <= sum(hypothesis.finished for hypothesis in found) < 200


@pytest.mark.parametrize(
    ("beam_size", "penalty", "rules"),
    [
        (1, 1.0, SearchRules(forces_end=True)),
        (4, 1.0, SearchRules(none_better=True)),
        (4, 0.0, SearchRules(none_better=True)),
        (4, 0.6, SearchRules(none_better=True, forces_end=True)),
    ],
)
@pytest.mark.parametrize("peers", ["untied, not scaled, relu", "two vocabularies, untied, renormalised"], indirect=True)
def test_translations_under_other_rules_are_those_of_transformers(
    peers: Peers, runtime: Sessions, beam_size: int, penalty: float, rules: SearchRules
) -> None:
    found = compared(peers, runtime, 80, beam_size=beam_size, length_penalty=penalty, rules=rules)
    assert len({tuple(hypothesis.target_ids) for hypothesis in found}) > 12
    assert sum(hypothesis.finished for hypothesis in found) >= 20


def compared(peers: Peers, runtime: Sessions, count: int, **search: Any) -> list[TargetHypothesis]:
    """Return the translations of random sentences, after a comparison of their tokens with those of transformers."""
    sentences = peers.sentences(count)
    found = peers.decoded(runtime, sentences, limit=LIMIT, **search)
    expected = peers.generated(sentences, limit=LIMIT, **search)
    trios = zip(sentences, found, expected, strict=True)
    others = [(ids, mine.target_ids, theirs) for ids, mine, theirs in trios if mine.target_ids != theirs]
    assert len(others) <= 2
    assert all(difference(peers, *other, search["beam_size"]) < 1e-4 for other in others)
    return found
