"""How far attention is from an aligner: alignment error rates of the decoder's layers and heads on held-out pairs.

    python model/recipes/alignment_error.py pieces CHECKPOINT FOLDER valid.tsv.gz train.tsv.gz
    eflomal-align -s FOLDER/source -t FOLDER/target -f FOLDER/forward -r FOLDER/reverse
    python model/recipes/alignment_error.py measure CHECKPOINT FOLDER valid.tsv.gz

The first command writes the pieces of pairs; those of the later files only help the aligner. Any aligner does that
writes links as "0-0 1-2", both ways. A link that it gives in both directions is sure, one of either is possible, and
the rate is that of Och and Ney 2003: 1 - (|A & S| + |A & P|) / (|A| + |S|). A piece of the translation, which is
forced, is linked to the piece of the source that it attends to most, ends left out. Layer and heads are chosen on the
first half of the pairs and measured on the second.
"""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from xuanzang.model.checkpoint import Checkpoint, load_checkpoint
from xuanzang.model.inspection.attention_maps import attention_maps

Links = frozenset[tuple[int, int]]
Heads = tuple[int, tuple[int, ...]]
"""A layer, and the heads of it whose attention is added."""


@dataclass(slots=True)
class Counts:
    """Sums over pairs."""

    sure: int = 0
    found: int = 0
    sure_found: int = 0
    possible_found: int = 0

    def add(self, links: Links, sure: Links, possible: Links) -> None:
        """Count the links of a pair."""
        self.sure += len(sure)
        self.found += len(links)
        self.sure_found += len(links & sure)
        self.possible_found += len(links & possible)

    @property
    def error(self) -> float:
        """Alignment error rate."""
        return 1 - (self.sure_found + self.possible_found) / (self.found + self.sure)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A held-out pair with the aligner's links, as source and target pieces."""

    source: str
    target: str
    sure: Links
    possible: Links


@dataclass(slots=True)
class Rates:
    """Counts of each choice of heads."""

    by_heads: dict[Heads, Counts] = field(default_factory=dict)

    def add(self, pair: Pair, weights: npt.NDArray[np.float32]) -> None:
        """Count a pair; weights are [layer, heads, target, source], ends left out."""
        for layer, heads in choices(weights.shape[0], weights.shape[1]):
            best = weights[layer, list(heads)].sum(axis=0).argmax(axis=-1)
            links = frozenset((int(source), target) for target, source in enumerate(best))
            self.by_heads.setdefault((layer, heads), Counts()).add(links, pair.sure, pair.possible)


def choices(layers: int, heads: int) -> Iterator[Heads]:
    """Yield all sets of heads of each layer."""
    for layer in range(layers):
        for size in range(1, heads + 1):
            yield from ((layer, chosen) for chosen in combinations(range(heads), size))


def read_pairs(paths: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Yield the pairs of gzipped tables."""
    for path in paths:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                source, target, *_ = line.rstrip("\n").split("\t")
                yield source, target


def write_pieces(checkpoint: Checkpoint, folder: Path, pairs: Iterable[tuple[str, str]]) -> None:
    """Write the pieces of pairs, a line each, ends left out."""
    sources, targets = zip(*pairs, strict=True)
    tokenizers = (checkpoint.source_tokenizer, checkpoint.target_tokenizer)
    for name, texts, tokenizer in zip(("source", "target"), (sources, targets), tokenizers, strict=True):
        rows = (map(str, ids[:-1]) for ids in tokenizer.encode_all(list(texts)))
        (folder / name).write_text("".join(" ".join(row) + "\n" for row in rows), encoding="utf-8")


def read_links(path: Path) -> Iterator[Links]:
    """Yield the links of each line of a file such as "0-0 1-2"."""
    for line in path.read_text(encoding="utf-8").splitlines():
        pairs = (link.split("-") for link in line.split())
        yield frozenset((int(source), int(target)) for source, target in pairs)


def aligned_pairs(folder: Path, pairs: Iterable[tuple[str, str]]) -> Iterator[Pair]:
    """Yield pairs with the links of the aligner."""
    both = zip(read_links(folder / "forward"), read_links(folder / "reverse"), strict=True)
    for (source, target), (forward, reverse) in zip(pairs, both, strict=False):
        yield Pair(source=source, target=target, sure=forward & reverse, possible=forward | reverse)


def rates_of(checkpoint: Checkpoint, pairs: Sequence[Pair]) -> Mapping[Heads, Counts]:
    """Return the counts of all sets of heads."""
    rates = Rates()
    for pair in pairs:
        weights = attention_maps(checkpoint, pair.source, pair.target).cross_attention
        rates.add(pair, weights[:, :, :-1, :-1])
    return rates.by_heads


def measure(checkpoint: Checkpoint, pairs: Sequence[Pair]) -> None:
    """Print the rates of both halves."""
    half = len(pairs) // 2
    choosing, measured = rates_of(checkpoint, pairs[:half]), rates_of(checkpoint, pairs[half:])
    links = next(iter(measured.values())).sure
    print(f"{half} pairs to choose on, {len(pairs) - half} to measure, {links} sure links")
    config = checkpoint.model.config
    for layer in range(config.num_decoder_layers):
        every = tuple(range(config.num_heads))
        alone = " ".join(f"{measured[layer, (head,)].error:.3f}" for head in every)
        print(f"layer {layer + 1}: mean of heads {measured[layer, every].error:.3f}; heads {alone}")
    best = min(choosing, key=lambda heads: choosing[heads].error)
    layer, heads = best[0] + 1, [head + 1 for head in best[1]]
    print(f"chosen: layer {layer}, heads {heads}: {choosing[best].error:.3f}, measured {measured[best].error:.3f}")


def main() -> None:
    """Write pieces, or print rates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("pieces", "measure"))
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("pairs", type=Path, nargs="+")
    parser.add_argument("--count", type=int, default=400, help="held-out pairs that are measured")
    arguments = parser.parse_args()
    checkpoint = load_checkpoint(arguments.checkpoint)
    if arguments.action == "pieces":
        write_pieces(checkpoint, arguments.folder, read_pairs(arguments.pairs))
    else:
        found = aligned_pairs(arguments.folder, read_pairs(arguments.pairs))
        measure(checkpoint, list(islice(found, arguments.count)))


if __name__ == "__main__":
    main()
