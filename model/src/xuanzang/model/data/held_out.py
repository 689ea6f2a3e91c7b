"""Validation pairs cut from the training files, the same ones whichever files and weights are prepared together."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from xuanzang.model.data.corpus import Pair
from xuanzang.model.data.filters import side_key

HELD_OUT_FILE = "valid.tsv"


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
    Training pairs that share a side with a held-out pair of any corpus are dropped.

    Args:
        corpora: Cleaned pairs.
        share: Fraction of each corpus to hold out, in [0, 1).
        maximum: Upper limit of pairs per corpus.
        counts: Counts of kept and dropped pairs of each corpus, brought up to date.
    """
    chosen = [row for name, pairs in corpora.items() for row in _lowest(name, pairs, share, maximum)]
    chosen.sort()
    sides = [{side_key(row[2][side]) for row in chosen} for side in (0, 1)]
    kept: dict[str, list[Pair]] = {}
    for name, pairs in corpora.items():
        kept[name] = [pair for pair in pairs if not any(side_key(pair[side]) in sides[side] for side in (0, 1))]
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
