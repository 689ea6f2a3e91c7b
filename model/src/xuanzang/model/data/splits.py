"""The writer of prepared pairs, counterpart of `PreparedSplit`."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

from xuanzang.model.data.corpus import CorpusError, Pair
from xuanzang.model.tokenizer import Tokenizer

_CHUNK = 4096


class SplitWriter:
    """Writer of ids that `PreparedSplit` maps from disk."""

    def __init__(self, folder: Path, tokenizers: tuple[Tokenizer, Tokenizer], max_tokens: int) -> None:
        self._folder, self._tokenizers, self._max_tokens = folder, tokenizers, max_tokens

    def write(self, split: str, pairs: Sequence[Pair], corpora: Sequence[int] | None = None) -> int:
        """Write the pairs of a split that are short enough.

        Args:
            split: "train" or "valid".
            pairs: Pairs to write, at least one.
            corpora: Number of each pair's corpus, if it is to be kept.

        Returns:
            Number of pairs that were short enough.

        Raises:
            CorpusError: None was.
        """
        ids = [
            _encode(tokenizer, texts, split)
            for tokenizer, texts in zip(self._tokenizers, zip(*pairs, strict=True), strict=True)
        ]
        lengths = np.array([[len(row) for row in rows] for rows in ids])  # [side, pair]
        keep = lengths.max(axis=0) <= self._max_tokens
        if not keep.any():
            raise CorpusError(f"all {split} pairs have more than {self._max_tokens} tokens")
        for side, rows, row_lengths in zip(("source", "target"), ids, lengths, strict=True):
            kept = [np.array(row, dtype=np.uint16) for row, is_kept in zip(rows, keep, strict=True) if is_kept]
            np.save(self._folder / f"{split}.{side}.ids.npy", np.concatenate(kept))
            np.save(self._folder / f"{split}.{side}.offsets.npy", np.concatenate([[0], np.cumsum(row_lengths[keep])]))
        if corpora is not None:
            np.save(self._folder / f"{split}.corpus.npy", np.array(corpora, dtype=np.uint16)[keep])
        return int(keep.sum())


def digest(folder: Path) -> str:
    """Return the SHA-256 of the training ids of a folder, in hexadecimal."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("train.*.npy")):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _encode(tokenizer: Tokenizer, texts: Sequence[str], split: str) -> list[list[int]]:
    chunks = tqdm(range(0, len(texts), _CHUNK), desc=f"tokenising {split}", unit="chunk", file=sys.stderr)
    return [row for start in chunks for row in tokenizer.encode_all(texts[start : start + _CHUNK])]
