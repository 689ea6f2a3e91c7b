"""Tables of positional encodings, section 3.5 of arXiv 1706.03762."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from xuanzang.model.network.config import TransformerConfig

FloatArray = npt.NDArray[np.float32]


def sinusoidal_positions(max_positions: int, d_model: int) -> FloatArray:
    """Tabulate sines and cosines of geometrically spaced wavelengths.

    Args:
        max_positions: Rows of the table, one per position from 0.
        d_model: Columns of the table; even.

    Returns:
        [position, model], float32: sin(pos / 10000^(2i/d)) in column 2i, the cosine of the same angle in column 2i + 1.

    Source: section 3.5.
    """
    position = np.arange(max_positions, dtype=np.float64)[:, None]
    # float64 until the end: exp of a float32 exponent would be off by 1e-4 at the far positions.
    frequency = np.exp(np.arange(0, d_model, 2, dtype=np.float64) * (-math.log(10000.0) / d_model))
    table = np.empty((max_positions, d_model), np.float32)
    table[:, 0::2] = np.sin(position * frequency)
    table[:, 1::2] = np.cos(position * frequency)
    return table


def fairseq_positions(max_positions: int, d_model: int, first: int) -> FloatArray:
    """Tabulate sines and cosines as fairseq and tensor2tensor do.

    Args:
        max_positions: Rows of the table.
        d_model: Columns of the table; even, 4 or more.
        first: Position of the first row.

    Returns:
        [position, model], float32: all sines, then all cosines; wavelengths from 2π to exactly 10000 · 2π.
    """
    position = np.arange(first, first + max_positions, dtype=np.float64)[:, None]
    half = d_model // 2
    angles = position * np.exp(np.arange(half, dtype=np.float64) * (-math.log(10000.0) / (half - 1)))
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)


def fixed_positions(config: TransformerConfig) -> FloatArray:
    """Tabulate the sines and cosines of a configuration whose positions are not learned.

    Returns:
        [position, model], float32.
    """
    if config.positions == "sinusoidal_fairseq":
        return fairseq_positions(config.max_positions, config.d_model, config.pad_id + 1)
    table = sinusoidal_positions(config.max_positions, config.d_model)
    if config.positions == "sinusoidal_halves":
        table = np.concatenate([table[:, 0::2], table[:, 1::2]], axis=1)  # all sines, then all cosines
    return table
