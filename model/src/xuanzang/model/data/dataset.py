"""Prepared pairs on disk, and batches of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from xuanzang.model.tokenizer import BOS_ID, PAD_ID

BATCHES_PER_SORT = 800
"""Batches that are sorted by length together: enough for little padding, few enough to keep epochs shuffled."""


class Batch(NamedTuple):
    """Sentence pairs, padded."""

    source_ids: Tensor
    """[batch, source], int64."""
    source_mask: Tensor
    """[batch, source], bool; True = real token."""
    target_input_ids: Tensor
    """Decoder input, bos first, [batch, target], int64."""
    target_output_ids: Tensor
    """Expected output of the decoder, eos last, then padding, [batch, target], int64."""

    @property
    def target_tokens(self) -> int:
        """Target tokens, eos counted, padding not."""
        return int((self.target_output_ids != PAD_ID).sum())

    def to(self, device: torch.device) -> Batch:
        """Return the batch on a device; to a GPU it is copied while the GPU computes."""
        pinned = [tensor.pin_memory() if device.type == "cuda" else tensor for tensor in self]
        return Batch(*(tensor.to(device, non_blocking=True) for tensor in pinned))


class PreparedSplit:
    """The pairs of one split, mapped from disk."""

    def __init__(self, folder: Path, split: str, *, multiple: int = 1) -> None:
        """Map a split of a folder that `prepare` wrote.

        Args:
            folder: Folder that `prepare` wrote.
            split: "train" or "valid".
            multiple: Batches are padded to lengths that are multiples of this.

        Raises:
            FileNotFoundError: There is no such split.
        """
        self._ids = [np.load(folder / f"{split}.{side}.ids.npy", mmap_mode="r") for side in ("source", "target")]
        self._offsets = [np.load(folder / f"{split}.{side}.offsets.npy") for side in ("source", "target")]
        corpus_file = folder / f"{split}.corpus.npy"
        self.corpus_ids: npt.NDArray[np.uint16] | None = np.load(corpus_file) if corpus_file.exists() else None
        """Number of each pair's corpus, [pair]; None for pairs of a file of their own."""
        self._multiple = multiple

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self._offsets[0]) - 1

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Tokens of each pair's source and target, eos counted, [pair, 2]."""
        return np.stack([np.diff(offsets) for offsets in self._offsets], axis=1)

    @property
    def padded_lengths(self) -> npt.NDArray[np.int64]:
        """Tokens of each pair's source and target, rounded up to what a batch is padded to, [pair, 2]."""
        return -(-self.lengths // self._multiple) * self._multiple

    def batch(self, indices: Sequence[int] | npt.NDArray[np.int64]) -> Batch:
        """Return the pairs at `indices`, padded to the longest."""
        source, target = (self._padded(side, np.asarray(indices)) for side in (0, 1))
        target_input = np.where(target == PAD_ID, PAD_ID, np.roll(target, 1, axis=1))
        target_input[:, 0] = BOS_ID
        return Batch(*map(torch.from_numpy, (source, source != PAD_ID, target_input, target)))

    def _padded(self, side: int, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return one side of some pairs, [batch, length], without a loop over them."""
        starts, ends = self._offsets[side][indices], self._offsets[side][indices + 1]
        length = -(-int((ends - starts).max()) // self._multiple) * self._multiple
        positions = starts[:, None] + np.arange(length)  # [batch, length]
        inside = positions < ends[:, None]
        return np.where(inside, self._ids[side][np.where(inside, positions, 0)], PAD_ID).astype(np.int64)


def epoch_batches(
    split: PreparedSplit, weights: Sequence[float], batch_tokens: int, seed: int, epoch: int
) -> list[npt.NDArray[np.int64]]:
    """Cut one epoch into batches of similar lengths.

    The same arguments give the same batches, which is what lets training resume exactly.

    Args:
        weights: Uses of each corpus per epoch; of a fraction, which pairs is drawn at random in each epoch.
        batch_tokens: Maximum tokens per batch, padding counted, on the longer side; a longer pair comes alone.

    Returns:
        Indices of the pairs of each batch.
    """
    rng = np.random.default_rng((seed, epoch))
    corpus_ids = np.zeros(len(split), dtype=np.uint16) if split.corpus_ids is None else split.corpus_ids
    wanted = np.asarray(weights)[corpus_ids]
    repeats = np.floor(wanted + rng.random(len(split))).astype(np.int64)
    order = rng.permutation(np.repeat(np.arange(len(split)), repeats))
    batches = list(_cut(order, split.padded_lengths, batch_tokens))
    return [batches[i] for i in rng.permutation(len(batches))]


def sequential_batches(split: PreparedSplit, batch_tokens: int) -> list[npt.NDArray[np.int64]]:
    """Cut a split into batches of similar lengths, each pair once; for validation."""
    return list(_cut(np.arange(len(split)), split.padded_lengths, batch_tokens))


def _cut(
    order: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], batch_tokens: int
) -> Iterator[npt.NDArray[np.int64]]:
    longest = lengths.max(axis=1)
    if not len(order):
        return
    chunk = max(1, int(BATCHES_PER_SORT * batch_tokens / longest[order].mean()))
    for start in range(0, len(order), chunk):
        part = order[start : start + chunk]
        part = part[np.lexsort((lengths[part, 0], lengths[part, 1]))]
        first = 0
        while first < len(part):
            # Padded size of part[first:end] is count × running maximum, which only grows with end.
            limit = max(1, batch_tokens // longest[part[first]])
            following = longest[part[first : first + limit]]
            sizes = np.maximum.accumulate(following) * np.arange(1, len(following) + 1)
            count = max(1, int(np.searchsorted(sizes, batch_tokens, side="right")))
            yield part[first : first + count]
            first += count


def pad_rows(rows: Sequence[Sequence[int] | npt.NDArray[np.int64]], pad_id: int = PAD_ID) -> Tensor:
    """Stack rows of ids, padded with pad_id to the longest: [row, length], int64."""
    padded = np.full((len(rows), max(map(len, rows))), pad_id, dtype=np.int64)
    for i, row in enumerate(rows):
        padded[i, : len(row)] = row
    return torch.from_numpy(padded)


def pad_sentences(sentences: Sequence[Sequence[int]], pad_id: int) -> tuple[Tensor, Tensor]:
    """Stack sentences as the encoder takes them.

    Args:
        sentences: Source ids, eos last.
        pad_id: Id that fills them up to the longest; may also be the id of a piece.

    Returns:
        Ids [batch, source], int64, and the mask [batch, source], bool; True = real token.
    """
    lengths = torch.tensor([len(sentence) for sentence in sentences])
    return pad_rows(sentences, pad_id), torch.arange(int(lengths.max())) < lengths[:, None]
