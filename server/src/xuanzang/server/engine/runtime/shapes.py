"""Dimensions of what graphs keep of each sentence, and the tensors that hold it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xuanzang.server.engine.runtime.pages import PageShape, Tensor


class GraphTensors(NamedTuple):
    """Inputs and outputs of a graph, by their names in it."""

    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]
    """Partly the same tensors: the graph works in place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheShape:
    """Keys, values and states that the graphs keep for each sentence."""

    past_names: tuple[str, ...]
    """Decoder inputs of self-attention, [page, heads, slot, head]; none if the decoder keeps states."""
    state_names: tuple[str, ...] = ()
    """Decoder inputs with a state of each hypothesis, [batch, beam, model]; none if it keeps keys and values."""
    cross_names: tuple[str, ...]
    """Decoder inputs of cross-attention, of the same dimensions."""
    page: PageShape
    dtype: npt.DTypeLike
    device: str
    """"cpu" or "cuda"."""

    @property
    def d_model(self) -> int:
        """Width of a state."""
        return self.page.num_heads * self.page.d_head

    def bytes_needed(self, beam_size: int, *, source_tokens: int, target_tokens: int) -> int:
        """Return the bytes that a sentence adds to the pools of its batch at most.

        In the worst case no two hypotheses share a slot. Among sentences that are encoded together a fifth of the
        positions may be padding (`decoding/decoder.py`), and `PageTable` makes one spare page for four. Such sums bound
        the sums of what sentences take, not what each takes.
        """
        slots, page = self.page.slots, math.prod(self.page) * np.dtype(self.dtype).itemsize
        past = -(-beam_size * target_tokens // slots) * len(self.past_names)
        cross = (-(-source_tokens * 5 // (4 * slots)) + 1) * len(self.cross_names)
        states = len(self.state_names) * beam_size * self.d_model * np.dtype(np.float32).itemsize
        return -(-(past + cross) * page * 5 // 4) + states
