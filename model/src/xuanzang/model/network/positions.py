"""Positional encodings, section 3.5 of arXiv 1706.03762."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from xuanzang.model.network.config import TransformerConfig


def sinusoidal_positions(max_positions: int, d_model: int) -> Tensor:
    """Tabulate sines and cosines of geometrically spaced wavelengths.

    Args:
        max_positions: Rows of the table, one per position from 0.
        d_model: Columns of the table; even.

    Returns:
        [position, model], float32: sin(pos / 10000^(2i/d)) in column 2i, the cosine of the same angle in column 2i + 1.

    Source: section 3.5.
    """
    position = torch.arange(max_positions, dtype=torch.float64)[:, None]
    # float64 until the end: exp of a float32 exponent would be off by 1e-4 at the far positions.
    frequency = torch.exp(torch.arange(0, d_model, 2, dtype=torch.float64) * (-math.log(10000.0) / d_model))
    table = torch.empty(max_positions, d_model, dtype=torch.float64)
    table[:, 0::2] = torch.sin(position * frequency)
    table[:, 1::2] = torch.cos(position * frequency)
    return table.float()


def fairseq_positions(max_positions: int, d_model: int, first: int) -> Tensor:
    """Tabulate sines and cosines as fairseq and tensor2tensor do.

    Args:
        max_positions: Rows of the table.
        d_model: Columns of the table; even, 4 or more.
        first: Position of the first row.

    Returns:
        [position, model], float32: all sines, then all cosines; wavelengths from 2π to exactly 10000 · 2π.
    """
    position = torch.arange(first, first + max_positions, dtype=torch.float64)[:, None]
    half = d_model // 2
    angles = position * torch.exp(torch.arange(half, dtype=torch.float64) * (-math.log(10000.0) / (half - 1)))
    return torch.cat([torch.sin(angles), torch.cos(angles)], dim=1).float()


def fixed_positions(config: TransformerConfig) -> Tensor:
    """Tabulate the sines and cosines of a configuration whose positions are not learned.

    Returns:
        [position, model], float32.
    """
    if config.positions == "sinusoidal_fairseq":
        return fairseq_positions(config.max_positions, config.d_model, config.pad_id + 1)
    table = sinusoidal_positions(config.max_positions, config.d_model)
    if config.positions == "sinusoidal_halves":
        table = torch.cat([table[:, 0::2], table[:, 1::2]], dim=1)  # all sines, then all cosines
    return table


class PositionalEncoding(nn.Module):
    """A row of a table, fixed or learned, for each position."""

    table: Tensor

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        sizes = config.max_positions, config.d_model
        if config.positions == "learned":
            self.table = nn.Parameter(torch.randn(sizes) * config.d_model**-0.5)
        else:
            self.register_buffer("table", fixed_positions(config), persistent=False)

    def forward(self, start: int, length: int) -> Tensor:
        """Return the encodings of `length` positions from `start`.

        Args:
            start: First position, 0 or more.

        Returns:
            [length, model].

        Raises:
            ValueError: The last position lies beyond the table.
        """
        if start + length > self.table.size(0):
            raise ValueError(f"position {start + length - 1} is beyond max_positions = {self.table.size(0)}")
        return self.table[start : start + length]
