"""Imported models of many languages against transformers on the same weights: network and search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from multilingual_directories import Model, write_m2m, write_mbart, write_nllb
from peers import Peers

from xuanzang.model.checkpoint import load_checkpoint
from xuanzang.model.data.dataset import pad_sentences
from xuanzang.model.importing.importer import import_model
from xuanzang.model.search import beam_search
from xuanzang.server.engine.runtime.sessions import Sessions

LIMIT = 30
TARGET = "en"
Write = Callable[..., Model]
KINDS: dict[str, tuple[Write, dict[str, Any]]] = {
    "NLLB-200": (write_nllb, {}),
    "NLLB-200, legacy, deep, not scaled": (
        write_nllb,
        {"encoder_layers": 5, "decoder_layers": 3, "scale_embedding": False, "legacy": True},
    ),
    "M2M-100, untied": (write_m2m, {"tie_word_embeddings": False, "d_model": 48, "activation_function": "gelu"}),
    "SMaLL-100": (write_m2m, {"small": True, "encoder_layers": 3}),
    "mBART-50": (write_mbart, {"activation_function": "gelu", "decoder_layers": 3}),
    "mBART": (write_mbart, {"tokenizer_class": "MBartTokenizer", "scale_embedding": False}),
}


@pytest.fixture(scope="module", params=KINDS)
def peers(request: pytest.FixtureRequest, shared_tokenizer: Path, tmp_path_factory: pytest.TempPathFactory) -> Peers:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("multilingual")
    write, settings = KINDS[request.param]
    theirs = write(shared_tokenizer, folder / "directory", **settings)
    import_model(folder / "directory", folder / "checkpoint")
    ours = load_checkpoint(folder / "checkpoint").between("fr", TARGET)
    return Peers(theirs=theirs, ours=ours, words=(4, 100))


def test_logits_are_those_of_transformers(peers: Peers) -> None:
    target = torch.randint(4, 100, (12, 15), generator=torch.Generator().manual_seed(1))
    peers.require_same_logits(target, [*range(peers.ours.model.config.target_vocab_size)])


@pytest.fixture(scope="module")
def runtime(peers: Peers, open_imported: Callable[..., Sessions]) -> Sessions:
    return open_imported(peers.ours.folder, source_language="fr", target_language=TARGET)


def searched(peers: Peers, sentences: Sequence[list[int]], beam_size: int) -> list[list[int]]:
    source, mask = pad_sentences(sentences, peers.ours.model.config.pad_id)
    prefixes = [peers.ours.target_prefix_ids] * len(sentences)
    found = beam_search(peers.ours.model, source, mask, beam_size=beam_size, max_target_length=LIMIT, prefixes=prefixes)
    return [hypotheses[0].target_ids for hypotheses in found]


@pytest.mark.parametrize("beam_size", [1, 4])
def test_tokens_are_those_of_transformers(peers: Peers, runtime: Sessions, beam_size: int) -> None:
    sentences = peers.sentences(200)
    expected = peers.generated(sentences, limit=LIMIT, beam_size=beam_size)
    assert len({*map(tuple, expected)}) > 50
    ended = sum(len(ids) < LIMIT for ids in expected)
    assert ended >= 20
    served = peers.decoded(runtime, sentences, limit=LIMIT, beam_size=beam_size)
    for found in (searched(peers, sentences, beam_size), [hypothesis.target_ids for hypothesis in served]):
        assert sum(mine != theirs for mine, theirs in zip(found, expected, strict=True)) <= 2
