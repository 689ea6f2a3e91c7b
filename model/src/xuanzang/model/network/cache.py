"""Keys and values that the decoder keeps between steps."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class LayerCache(NamedTuple):
    """Keys and values of one decoder block."""

    past_key: Tensor
    """Self-attention keys of the tokens so far, [row, heads, past, head]."""
    past_value: Tensor
    """Self-attention values of the tokens so far, [row, heads, past, head]."""
    cross_key: Tensor
    """Keys of the encoder memory, computed once, [row, heads, source, head]."""
    cross_value: Tensor
    """Values of the encoder memory, computed once, [row, heads, source, head]."""

    def append(self, key: Tensor, value: Tensor) -> LayerCache:
        """Return the cache with one more position, [row, heads, 1, head] each."""
        return self._replace(
            past_key=torch.cat([self.past_key, key], dim=2), past_value=torch.cat([self.past_value, value], dim=2)
        )


class DecoderCache(NamedTuple):
    """The caches of all decoder blocks, for the same rows."""

    layers: tuple[LayerCache, ...]
    source_mask: Tensor
    """[row, source], bool; True = real token."""

    @property
    def length(self) -> int:
        """Tokens decoded so far, which is the position of the next one."""
        return self.layers[0].past_key.size(2)

    def select(self, rows: Tensor) -> DecoderCache:
        """Return the cache of other rows, as a beam search needs after choosing its survivors.

        Args:
            rows: Old row of each new row, [row], int64; may repeat or leave out.
        """
        layers = tuple(LayerCache(*(tensor.index_select(0, rows) for tensor in layer)) for layer in self.layers)
        return DecoderCache(layers, self.source_mask.index_select(0, rows))
