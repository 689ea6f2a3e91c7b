"""Held-out sentence pairs."""

from __future__ import annotations

from pathlib import Path

from xuanzang.model.checkpoint import Checkpoint
from xuanzang.model.data.corpus import CorpusError, Pair, read_pairs


def read_usable_pairs(checkpoint: Checkpoint, path: Path) -> list[Pair]:
    """Read the pairs that fit the model on both sides.

    Raises:
        CorpusError: The file cannot be read, or no pair fits.
    """
    limit = checkpoint.model.config.max_positions
    pairs = [
        pair
        for pair in read_pairs(path)
        if pair.source
        and pair.target
        and len(checkpoint.source_ids(pair.source)) <= limit
        and len(checkpoint.target_prefix_ids) + len(checkpoint.target_tokenizer.encode(pair.target)) <= limit
    ]
    if not pairs:
        raise CorpusError(f"{path}: no pair fits the model's {limit} positions")
    return pairs
