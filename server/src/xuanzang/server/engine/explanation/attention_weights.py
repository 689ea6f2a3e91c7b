"""Weights of attention, from the queries and keys that a graph has shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from xuanzang.server.engine.arrays import Floats
from xuanzang.server.engine.explanation.types import Attention, AttentionChoice, AttentionKind


def head_weights(queries: Floats, keys: Floats, *, causal: bool = False) -> Floats:
    """Compute the weights of every head.

    Args:
        queries: Rows that attend, [row, heads, head].
        keys: Columns that are attended to, [column, heads, head].
        causal: Whether a row attends to no column after its own.

    Returns:
        Weights, [heads, row, column]; each row sums to 1.

    Source: Vaswani et al. 2017, arXiv:1706.03762, equation 1.
    """
    products = np.einsum("qhd,khd->hqk", queries.astype(np.float32), keys.astype(np.float32))
    logits = products / np.sqrt(np.float32(queries.shape[-1]))
    if causal:
        logits = np.where(np.tri(*logits.shape[1:]).astype(bool), logits, np.float32(-np.inf))
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    shares: Floats = weights / weights.sum(axis=-1, keepdims=True)
    return shares


def chosen_weights(kind: AttentionKind, layers: Sequence[Floats], choice: AttentionChoice) -> Iterator[Attention]:
    """Yield the wanted weights of one kind, by layer: the mean of the heads, then each head.

    Args:
        kind: Kind of the weights.
        layers: Weights of every layer, [heads, row, column].
        choice: Layers and heads that are wanted.
    """
    for layer, weights in enumerate(layers):
        if choice.layers and layer not in choice.layers:
            continue
        yield Attention(kind=kind, layer=layer, head=None, weights=weights.mean(axis=0))
        if choice.heads:
            for head, of_head in enumerate(weights):
                yield Attention(kind=kind, layer=layer, head=head, weights=of_head)
