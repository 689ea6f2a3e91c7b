"""Random weights that end their sentences: a Transformer that translates every sentence to itself.

The time of a translation depends on shapes and lengths, not on the values of weights, so a preset that nobody has
trained can be measured if its translations have the lengths of real ones. In the last block of the decoder, attention
to the source looks at the position that is to be written and hands its piece on. Everything else stays random.
"""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor, nn

from xuanzang.model.config import TransformerConfig
from xuanzang.model.layers import DecoderLayer, EncoderLayer
from xuanzang.model.transformer import Transformer

USUAL_LENGTH = 64
"""Positions that most sentences have."""
QUIETNESS = 0.1
"""What blocks add to the stream, as a share of what random weights would: pieces must outlast them."""
SHARPNESS = 4.0
"""Factor of queries and of keys: the position that is looked for gets nearly all of the attention."""
THRESHOLD = 0.6
"""Likeness of positions that counts as none: neighbours have 0.8, and a key's scale varies with its piece."""
LOUDNESS = 12.0
"""Factor of what was looked up: against it the rest of the decoder's stream is small."""


@torch.no_grad()
def copying_transformer(config: TransformerConfig) -> Transformer:
    """Return a model whose every translation is its source.

    Args:
        config: With pre-norm blocks, sinusoidal positions and one embedding for source, target and output.
    """
    model = Transformer(config).eval()
    # The first columns of the positions have the shortest waves, and the last is 1 everywhere.
    columns = [*range(config.d_head // 2), config.d_model - 1]
    embedding = model.source_embedding.weight
    # Slow waves hardly move: without what they add on average, norms subtract next to nothing from the fast ones.
    embedding -= model.source_positions.table[:USUAL_LENGTH].mean(0) / math.sqrt(config.d_model)
    embedding[:, columns] = 0
    for layer in [*model.encoder_layers, *model.decoder_layers]:
        _keep_clear(cast("EncoderLayer | DecoderLayer", layer), columns)
    _copy_by_position(cast("DecoderLayer", model.decoder_layers[-1]), config, columns)
    return model


def _keep_clear(layer: EncoderLayer | DecoderLayer, columns: list[int]) -> None:
    """Let a block add little to the stream, and nothing to some columns, so that these hold the position only."""
    writers = [layer.self_attention.output_projection, layer.feed_forward.outer]
    if isinstance(layer, DecoderLayer):
        writers.append(layer.cross_attention.output_projection)
    for writer in writers:
        writer.weight *= QUIETNESS
        writer.weight[columns] = 0
        writer.bias[columns] = 0


def _copy_by_position(layer: DecoderLayer, config: TransformerConfig, columns: list[int]) -> None:
    """Make every head compare positions and hand on its share of the source's piece."""
    attention, width = layer.cross_attention, config.d_model
    # sin a sin b + cos a cos b = cos(a - b): the sum over waves is greatest where the positions are equal.
    factors = torch.full((len(columns),), SHARPNESS)
    factors[-1] *= math.sqrt(THRESHOLD * (len(columns) - 1) / 2)
    signs = torch.ones(len(columns))
    signs[-1] = -1
    for linear, diagonal in ((attention.query_projection, factors), (attention.key_projection, factors * signs)):
        head = torch.zeros(config.d_head, width)
        head[range(len(columns)), columns] = diagonal
        _set(linear, head.repeat(config.num_heads, 1))
    _set(attention.value_projection, torch.eye(width))
    _set(attention.output_projection, LOUDNESS * torch.eye(width))
    attention.output_projection.weight[columns] = 0


def _set(linear: nn.Linear, weight: Tensor) -> None:
    linear.weight.copy_(weight)
    linear.bias.zero_()
