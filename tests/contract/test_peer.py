"""The server's search against CTranslate2's on the same weights: an engine that shares no code with ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import pytest
from ctranslate2.specs import TransformerSpec
from torch import nn

from xuanzang.model.checkpoint import Checkpoint, load_checkpoint
from xuanzang.model.layers import DecoderLayer, EncoderLayer
from xuanzang.server.bundles.repository import load_bundle
from xuanzang.server.engine.decoding import Decoder, Sentence, TargetHypothesis
from xuanzang.server.engine.runtime import Runtime
from xuanzang.server.engine.search import SearchOptions

LIMIT = 40


@pytest.fixture(scope="module")
def checkpoint(tiny_checkpoint: Path) -> Checkpoint:
    return load_checkpoint(tiny_checkpoint)


@pytest.fixture(scope="module")
def runtime(tiny_bundle_repository: Path) -> Runtime:
    return Runtime(load_bundle(tiny_bundle_repository / "tiny" / "1"), provider="cpu", intra_op_threads=1)


@pytest.fixture(scope="module")
def peer(checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> ctranslate2.Translator:
    folder = tmp_path_factory.mktemp("peer") / "model"
    folder.mkdir()
    spec = peer_spec(checkpoint)
    spec.validate()
    spec.optimize()
    spec.save(str(folder))
    return ctranslate2.Translator(str(folder), device="cpu", compute_type="float32", inter_threads=1, intra_threads=1)


def peer_spec(checkpoint: Checkpoint) -> TransformerSpec:
    model: Any = checkpoint.model
    config = checkpoint.model.config
    layers = (config.num_encoder_layers, config.num_decoder_layers)
    spec = TransformerSpec.from_config(layers, config.num_heads, pre_norm=True)
    sides = (
        (spec.encoder, model.encoder_layers, model.encoder_norm, model.source_positions),
        (spec.decoder, model.decoder_layers, model.decoder_norm, model.target_positions),
    )
    for target, blocks, norm, positions in sides:
        target.position_encodings.encodings = positions.table.numpy()
        set_norm(target.layer_norm, norm)
        for block_spec, block in zip(target.layer, blocks, strict=True):
            set_block(block_spec, block)
    spec.encoder.embeddings[0].weight = copied(model.source_embedding)
    spec.decoder.embeddings.weight = copied(model.target_embedding)
    for embeddings in (spec.encoder.embeddings[0], spec.decoder.embeddings):
        embeddings.multiply_by_sqrt_depth = True
    spec.decoder.projection.weight = copied(model.output_projection)
    for register, tokenizer in (
        (spec.register_source_vocabulary, checkpoint.source_tokenizer),
        (spec.register_target_vocabulary, checkpoint.target_tokenizer),
    ):
        register(tokenizer.pieces(range(len(tokenizer))))
    spec.config.add_source_eos = False
    spec.config.decoder_start_token = "<s>"
    spec.config.layer_norm_epsilon = 1e-5
    return spec


def set_block(spec: Any, block: EncoderLayer | DecoderLayer) -> None:
    attention = block.self_attention
    set_norm(spec.self_attention.layer_norm, block.self_attention_residual.norm)
    set_linear(
        spec.self_attention.linear[0], attention.query_projection, attention.key_projection, attention.value_projection
    )
    set_linear(spec.self_attention.linear[1], attention.output_projection)
    if isinstance(block, DecoderLayer):
        cross = block.cross_attention
        set_norm(spec.attention.layer_norm, block.cross_attention_residual.norm)
        set_linear(spec.attention.linear[0], cross.query_projection)
        set_linear(spec.attention.linear[1], cross.key_projection, cross.value_projection)
        set_linear(spec.attention.linear[2], cross.output_projection)
    set_norm(spec.ffn.layer_norm, block.feed_forward_residual.norm)
    set_linear(spec.ffn.linear_0, block.feed_forward.inner)
    set_linear(spec.ffn.linear_1, block.feed_forward.outer)


def set_linear(spec: Any, *layers: nn.Linear) -> None:
    spec.weight = np.concatenate([copied(layer) for layer in layers])
    spec.bias = np.concatenate([layer.bias.detach().numpy() for layer in layers])


def set_norm(spec: Any, norm: nn.LayerNorm) -> None:
    spec.gamma, spec.beta = copied(norm), norm.bias.detach().numpy().copy()


def copied(module: Any) -> Any:
    # The converter changes arrays in place.
    return module.weight.detach().numpy().copy()


def served(runtime: Runtime, rows: list[list[int]], options: SearchOptions) -> list[list[TargetHypothesis]]:
    decoder = Decoder(runtime)
    tasks = [Sentence(source_ids=ids, options=options) for ids in rows]
    decoder.admit(tasks)
    found: dict[Sentence, list[TargetHypothesis]] = {}
    while len(decoder):
        found.update(decoder.step())
    return [found[task] for task in tasks]


@pytest.mark.parametrize(("beam_size", "penalty"), [(1, 1.0), (4, 1.0), (4, 0.6), (4, 0.0), (6, 1.0)])
def test_hypotheses_and_scores_are_those_of_ctranslate2(
    checkpoint: Checkpoint,
    runtime: Runtime,
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
    found = served(runtime, rows, options)
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
