"""Prepared pairs: the writer of a split, and validation pairs cut from the training files."""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tqdm import tqdm

from xuanzang.model.data.corpus import CorpusError, Pair
from xuanzang.model.data.filters import PairFilter, side_key, side_keys
from xuanzang.model.tokenizer import Tokenizer

HELD_OUT_FILE = "valid.tsv"
_CHUNK = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """Pairs for training and, apart from them, for validation."""

    corpora: dict[str, list[Pair]]
    """Pairs to train on, by corpus."""
    pairs: list[Pair]
    """Validation pairs in a random order, so that the first of them are a sample of all corpora."""
    names: list[str]
    """Corpus of each validation pair; empty if they come from a file of their own."""


def hold_out(
    corpora: Mapping[str, Sequence[Pair]], share: float, maximum: int, counts: Mapping[str, Counter[str]]
) -> HeldOut:
    """Cut validation pairs from every corpus.

    A hash of both sides in alphabetical order decides, so a pair is held out from run to run and in both directions.
    Training pairs are dropped that share a side with a held-out pair of any corpus, as `filters.twin_key` compares.

    Args:
        share: Fraction of each corpus to hold out, in [0, 1).
        maximum: Upper limit of pairs per corpus.
        counts: Counts of kept and dropped pairs of each corpus, brought up to date.
    """
    chosen = [row for name, pairs in corpora.items() for row in _lowest(name, pairs, share, maximum)]
    chosen.sort()
    held_out = PairFilter(kept_out=side_keys(row[2] for row in chosen))
    kept: dict[str, list[Pair]] = {}
    for name, pairs in corpora.items():
        kept[name] = [pair for pair in pairs if not held_out.keeps_out(pair)]
        counts[name]["held out"] += len(pairs) - len(kept[name])
        counts[name]["kept"] = len(kept[name])
    return HeldOut(corpora=kept, pairs=[row[2] for row in chosen], names=[row[1] for row in chosen])


def write_held_out(path: Path, held_out: HeldOut) -> None:
    """Write `source<TAB>target<TAB>corpus` lines, which `evaluate` scores corpus by corpus."""
    rows = zip(held_out.pairs, held_out.names, strict=True)
    path.write_text("".join(f"{pair.source}\t{pair.target}\t{name}\n" for pair, name in rows), encoding="utf-8")


def _lowest(name: str, pairs: Iterable[Pair], share: float, maximum: int) -> list[tuple[float, str, Pair]]:
    """Return the pairs of a corpus whose hash is below `share`, at most `maximum`, lowest hash first."""
    hashed = ((_hash(pair), name, pair) for pair in pairs)
    return sorted(row for row in hashed if row[0] < share)[:maximum]


def _hash(pair: Pair) -> float:
    """Return a uniform number in [0, 1) that depends on the pair alone."""
    key = "\n".join(sorted(map(side_key, pair))).encode()
    return int.from_bytes(hashlib.blake2b(key, digest_size=8).digest()) / 2**64


class SplitWriter:
    """Writer of ids that `PreparedSplit` maps from disk."""

    def __init__(self, folder: Path, tokenizers: tuple[Tokenizer, Tokenizer], max_tokens: int) -> None:
        self._folder, self._tokenizers, self._max_tokens = folder, tokenizers, max_tokens

    def write(self, split: str, pairs: Sequence[Pair], corpora: Sequence[int] | None = None) -> int:
        """Write the pairs of a split that are short enough.

        Args:
            split: "train" or "valid".
            pairs: Pairs to write, at least one.
            corpora: Number of each pair's corpus, to keep it.

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
