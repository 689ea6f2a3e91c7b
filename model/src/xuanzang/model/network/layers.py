"""Encoder and decoder blocks, section 3.1 of arXiv 1706.03762."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from xuanzang.model.network.attention import MultiHeadAttention
from xuanzang.model.network.cache import LayerCache
from xuanzang.model.network.config import Activation, Norm, TransformerConfig

_ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {"relu": F.relu, "swish": F.silu, "gelu": F.gelu}


class FeedForward(nn.Module):
    """f(x W1 + b1) W2 + b2 at each position; with f(x) = max(0, x) section 3.3, equation 2."""

    def __init__(self, d_model: int, d_ff: int, activation: Activation = "relu") -> None:
        super().__init__()
        self.inner = nn.Linear(d_model, d_ff)
        self.outer = nn.Linear(d_ff, d_model)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        """Map [batch, length, model] to [batch, length, model]."""
        return self.outer(_ACTIVATIONS[self.activation](self.inner(x)))


class Residual(nn.Module):
    """Add & Norm around a sub-layer: LayerNorm(x + sublayer(x)), or x + sublayer(LayerNorm(x)) when pre-norm."""

    def __init__(self, d_model: int, dropout: float, norm: Norm) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)
        self.pre_norm = norm == "pre"

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Apply `sublayer`, which maps [batch, length, model] to the same, with its residual and norm."""
        if self.pre_norm:
            return x + self.dropout(sublayer(_as_products_read(self.norm(x))))
        return self.norm(x + self.dropout(sublayer(x)))


def _as_products_read(x: Tensor) -> Tensor:
    """Return bfloat16 under autocast, which would otherwise make it anew for every product that reads `x`."""
    device = x.device.type
    casting = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
    return x.to(torch.get_autocast_dtype(device)) if casting else x


class EncoderLayer(nn.Module):
    """Self-attention over the source, then a feed-forward network."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(config.d_model, config.num_heads)
        self.feed_forward = FeedForward(config.d_model, config.d_ff, config.activation)
        self.self_attention_residual = Residual(config.d_model, config.dropout, config.norm)
        self.feed_forward_residual = Residual(config.d_model, config.dropout, config.norm)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Encode [batch, source, model] under a mask [batch, 1, 1, source]; True = real token."""
        x = self.self_attention_residual(x, lambda h: self.self_attention(h, h, h, mask)[0])
        return self.feed_forward_residual(x, self.feed_forward)


class DecoderLayer(nn.Module):
    """Masked self-attention over the target, attention to the encoder memory, then a feed-forward network."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(config.d_model, config.num_heads)
        self.cross_attention = MultiHeadAttention(config.d_model, config.num_heads)
        self.feed_forward = FeedForward(config.d_model, config.d_ff, config.activation)
        self.self_attention_residual = Residual(config.d_model, config.dropout, config.norm)
        self.cross_attention_residual = Residual(config.d_model, config.dropout, config.norm)
        self.feed_forward_residual = Residual(config.d_model, config.dropout, config.norm)

    def forward(self, x: Tensor, memory: Tensor, target_mask: Tensor, source_mask: Tensor) -> Tensor:
        """Decode all positions at once (teacher forcing).

        Args:
            x: [batch, target, model].
            memory: Encoder output, [batch, source, model].
            target_mask: [target, target], bool; True at [i, j] = position i may see j.
            source_mask: [batch, 1, 1, source], bool; True = real token.

        Returns:
            [batch, target, model].
        """
        x = self.self_attention_residual(x, lambda h: self.self_attention(h, h, h, target_mask)[0])
        x = self.cross_attention_residual(x, lambda h: self.cross_attention(h, memory, memory, source_mask)[0])
        return self.feed_forward_residual(x, self.feed_forward)

    def step(self, x: Tensor, cache: LayerCache, source_mask: Tensor) -> tuple[Tensor, LayerCache]:
        """Decode one position.

        Args:
            x: [row, 1, model].
            cache: Keys and values so far.
            source_mask: [row, 1, 1, source], bool; True = real token.

        Returns:
            [row, 1, model], and the cache with this position.
        """
        grown = cache

        def attend_to_past(h: Tensor) -> Tensor:
            nonlocal grown
            grown = cache.append(*self.self_attention.project_key_value(h, h))
            return self.self_attention.attend(h, grown.past_key, grown.past_value)[0]

        x = self.self_attention_residual(x, attend_to_past)
        x = self.cross_attention_residual(
            x, lambda h: self.cross_attention.attend(h, cache.cross_key, cache.cross_value, source_mask)[0]
        )
        return self.feed_forward_residual(x, self.feed_forward), grown
