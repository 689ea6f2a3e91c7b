"""Scaled dot-product attention and its multi-head form, sections 3.2.1 and 3.2.2 of arXiv 1706.03762."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Average the values, weighted by how well each key answers each query.

    The readable form, which also gives the weights. `MultiHeadAttention` uses it when asked for weights, and to train
    on a CPU, where torch's own forms take longer; otherwise torch's fused kernel.

    Args:
        query: [..., query, head].
        key: [..., source, head].
        value: [..., source, value].
        mask: Broadcastable to [..., query, source], bool; True = the query may see the key. None shows all.

    Returns:
        Output [..., query, value] and weights [..., query, source], whose rows sum to 1. A query that may see no key
        gets weights and output 0, never NaN.

    Source: equation 1: softmax(Q Kᵀ / √d_k) V.
    """
    scores = query / math.sqrt(query.size(-1)) @ key.transpose(-2, -1)  # [..., query, source]
    if mask is None:
        weights = scores.softmax(dim=-1)
    else:
        # The lowest finite number instead of -inf: a row with no visible key stays finite and is zeroed afterwards.
        weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim=-1).masked_fill(~mask, 0.0)
    return weights @ value, weights


class MultiHeadAttention(nn.Module):
    """Attention in `num_heads` subspaces of width d_model / num_heads, concatenated and projected.

    Source: section 3.2.2: MultiHead(Q, K, V) = Concat(head_1 .. head_h) W^O.
    """

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.query_projection = nn.Linear(d_model, d_model)
        self.key_projection = nn.Linear(d_model, d_model)
        self.value_projection = nn.Linear(d_model, d_model)
        self.output_projection = nn.Linear(d_model, d_model)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, need_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from `query` to `key` and `value`.

        Args:
            query: [batch, query, model].
            key: [batch, source, model].
            value: [batch, source, model].
            mask: Broadcastable to [batch, heads, query, source], bool; True = visible.
            need_weights: Return the attention weights as well; slower.

        Returns:
            Output [batch, query, model] and weights [batch, heads, query, source] or None.
        """
        return self.attend(query, *self.project_key_value(key, value), mask, need_weights=need_weights)

    def project_key_value(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Project the attended states, which a decoder caches.

        Args:
            key: [batch, source, model].
            value: [batch, source, model].

        Returns:
            Keys and values, each [batch, heads, source, head].
        """
        return self._split_heads(self.key_projection(key)), self._split_heads(self.value_projection(value))

    def attend(
        self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None, *, need_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Attend to keys and values that `project_key_value` made.

        Args:
            query: [batch, query, model].
            keys: [batch, heads, source, head].
            values: [batch, heads, source, head].
            mask: Broadcastable to [batch, heads, query, source], bool; True = visible.
            need_weights: Return the attention weights as well; slower.

        Returns:
            Output [batch, query, model] and weights [batch, heads, query, source] or None.
        """
        queries = self._split_heads(self.query_projection(query))  # [batch, heads, query, head]
        weights = None
        if need_weights or (self.training and query.device.type == "cpu"):
            heads, weights = scaled_dot_product_attention(queries, keys, values, mask)
        else:
            heads = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
        return self.output_projection(heads.transpose(1, 2).flatten(2)), weights if need_weights else None

    def _split_heads(self, projected: Tensor) -> Tensor:
        batch, length, d_model = projected.shape
        return projected.view(batch, length, self.num_heads, d_model // self.num_heads).transpose(1, 2)
