"""Conversion of our checkpoints to models of CTranslate2, an engine that shares no code with ours."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from ctranslate2.specs import TransformerSpec
from torch import nn

from xuanzang.model.checkpoint import Checkpoint
from xuanzang.model.data.shortlist import Shortlist
from xuanzang.model.network.layers import DecoderLayer, EncoderLayer
from xuanzang.model.stored_checkpoint import CheckpointError


def save_as_ctranslate2(checkpoint: Checkpoint, folder: Path, shortlist: Shortlist | None = None) -> None:
    """Write a checkpoint as a float32 model of CTranslate2, which quantises when it loads.

    Args:
        checkpoint: Checkpoint with pre-norm blocks and one vocabulary for source and target.
        shortlist: Shortlist to write as vocabulary mapping, which CTranslate2 uses on request.

    Raises:
        CheckpointError: The checkpoint has post-norm blocks or two vocabularies.
    """
    if checkpoint.model.config.norm != "pre" or not checkpoint.metadata.share_vocabulary:
        raise CheckpointError("only pre-norm checkpoints with a shared vocabulary are converted")
    spec = _spec(checkpoint)
    spec.validate()
    spec.optimize()
    folder.mkdir(parents=True)
    spec.save(str(folder))
    if shortlist:
        pieces = checkpoint.target_tokenizer.pieces(range(checkpoint.model.config.target_vocab_size))
        (folder / "vmap.txt").write_text(_vocabulary_mapping(shortlist, pieces), encoding="utf-8")


def _vocabulary_mapping(shortlist: Shortlist, pieces: Sequence[str]) -> str:
    """Return a line with target pieces for each source piece, and one with those that are always allowed."""
    suggestions = {"": shortlist.always, **dict(zip(pieces, shortlist.suggested, strict=True))}
    lines = (f"{piece}\t{' '.join(pieces[i] for i in ids)}" for piece, ids in suggestions.items())
    return "\n".join(lines) + "\n"


def _spec(checkpoint: Checkpoint) -> TransformerSpec:
    model: Any = checkpoint.model
    config = checkpoint.model.config
    layers = (config.num_encoder_layers, config.num_decoder_layers)
    spec = TransformerSpec.from_config(layers, config.num_heads, pre_norm=True, alignment_heads=config.num_heads)
    sides = (
        (spec.encoder, model.encoder_layers, model.encoder_norm, model.source_positions),
        (spec.decoder, model.decoder_layers, model.decoder_norm, model.target_positions),
    )
    for target, blocks, norm, positions in sides:
        target.position_encodings.encodings = positions.table.detach().numpy()
        _set_norm(target.layer_norm, norm)
        for block_spec, block in zip(target.layer, blocks, strict=True):
            _set_block(block_spec, block)
    spec.encoder.embeddings[0].weight = _copied(model.source_embedding)
    spec.decoder.embeddings.weight = _copied(model.target_embedding)
    for embeddings in (spec.encoder.embeddings[0], spec.decoder.embeddings):
        embeddings.multiply_by_sqrt_depth = True
    spec.decoder.projection.weight = _copied(model.output_projection)
    tokenizer = checkpoint.target_tokenizer
    for register in (spec.register_source_vocabulary, spec.register_target_vocabulary):
        register(tokenizer.pieces(range(len(tokenizer))))
    spec.config.add_source_eos = False
    [spec.config.decoder_start_token] = tokenizer.pieces([config.bos_id])
    spec.config.layer_norm_epsilon = 1e-5
    return spec


def _set_block(spec: Any, block: EncoderLayer | DecoderLayer) -> None:
    attention = block.self_attention
    _set_norm(spec.self_attention.layer_norm, block.self_attention_residual.norm)
    _set_linear(
        spec.self_attention.linear[0], attention.query_projection, attention.key_projection, attention.value_projection
    )
    _set_linear(spec.self_attention.linear[1], attention.output_projection)
    if isinstance(block, DecoderLayer):
        cross = block.cross_attention
        _set_norm(spec.attention.layer_norm, block.cross_attention_residual.norm)
        _set_linear(spec.attention.linear[0], cross.query_projection)
        _set_linear(spec.attention.linear[1], cross.key_projection, cross.value_projection)
        _set_linear(spec.attention.linear[2], cross.output_projection)
    _set_norm(spec.ffn.layer_norm, block.feed_forward_residual.norm)
    _set_linear(spec.ffn.linear_0, block.feed_forward.inner)
    _set_linear(spec.ffn.linear_1, block.feed_forward.outer)


def _set_linear(spec: Any, *layers: nn.Linear) -> None:
    spec.weight = np.concatenate([_copied(layer) for layer in layers])
    spec.bias = np.concatenate([layer.bias.detach().numpy() for layer in layers])


def _set_norm(spec: Any, norm: Any) -> None:
    spec.gamma, spec.beta = _copied(norm), norm.bias.detach().numpy().copy()


def _copied(module: Any) -> Any:
    # The converter changes arrays in place.
    return module.weight.detach().numpy().copy()
