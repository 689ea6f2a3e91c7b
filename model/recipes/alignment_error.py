"""Distance of attention from an aligner: alignment error rates of the decoder's layers and heads on held-out pairs.

    xuanzang restore server/models/zh-en/4 bundled
    python -m venv /tmp/aligner && /tmp/aligner/bin/pip install eflomal
    python model/recipes/alignment_error.py bundled valid.tsv.gz train/*.tsv.gz \
        --aligner /tmp/aligner/bin/eflomal-align

Pairs of the first file are aligned and measured; a sample of those of the later files only helps the aligner, which is
eflomal or any other with its arguments: -s and -t for files of pieces, -f and -r for files of links such as "0-0 1-2",
forward and reverse. A link in both directions is sure, one in either is possible, and the rate is that of Och and Ney
2003: 1 - (|A & S| + |A & P|) / (|A| + |S|). A piece of the translation, which is forced, is linked to the piece of the
source that it attends to most, ends left out: in the step that writes it, or in the next one, which reads it (Chen et
al. 2020, Accurate Word Alignment Induction from Neural Machine Translation). Step, layer and heads are chosen on the
first half of the pairs and measured on the second.
"""

from __future__ import annotations

import argparse
import gzip
import random
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice, product
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from tqdm import tqdm

from xuanzang.model.checkpoint import Checkpoint, load_checkpoint
from xuanzang.model.evaluation.attention_maps import attention_maps

Links = frozenset[tuple[int, int]]
Heads = tuple[int, int, tuple[int, ...]]
"""0 for the step that writes a piece, 1 for the step that reads it; a layer; its heads, whose attention is added."""
_STEPS = ("writes", "reads")
_DIAGONAL: Heads = (0, -1, ())
"""No attention, but the piece at the same share of the sentence."""


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

    def __str__(self) -> str:
        precision, recall = self.possible_found / self.found, self.sure_found / self.sure
        return f"{self.error:.3f} (of its links possible {precision:.1%}, of the sure ones found {recall:.1%})"


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
        """Count a pair; weights are [layer, heads, target and end, source]."""
        layers, heads, ends, sources = weights.shape
        self._count(_DIAGONAL, np.arange(ends - 1) * sources // (ends - 1), pair)
        for step in range(len(_STEPS)):
            shifted = weights[:, :, step : ends - 1 + step]
            for layer, chosen in choices(layers, heads):
                self._count((step, layer, chosen), shifted[layer, list(chosen)].sum(axis=0).argmax(axis=-1), pair)

    def _count(self, heads: Heads, attended: npt.NDArray[np.int64], pair: Pair) -> None:
        links = frozenset((int(source), target) for target, source in enumerate(attended))
        self.by_heads.setdefault(heads, Counts()).add(links, pair.sure, pair.possible)


def choices(layers: int, heads: int) -> Iterator[tuple[int, tuple[int, ...]]]:
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


def rates_of(checkpoint: Checkpoint, pairs: Iterable[Pair]) -> Mapping[Heads, Counts]:
    """Return the counts of all sets of heads."""
    rates = Rates()
    for pair in pairs:
        weights = attention_maps(checkpoint, pair.source, pair.target).cross_attention
        rates.add(pair, weights[:, :, :, :-1])
    return rates.by_heads


def measure(checkpoint: Checkpoint, pairs: Sequence[Pair]) -> None:
    """Print the rates of both halves."""
    half = len(pairs) // 2
    progress = iter(tqdm(pairs, "pairs", leave=False))
    choosing, measured = (rates_of(checkpoint, islice(progress, size)) for size in (half, len(pairs) - half))
    links = next(iter(measured.values()))
    print(f"{half} pairs to choose on, {len(pairs) - half} to measure, {links.sure} sure links of {links.found} pieces")
    print(f"diagonal: {measured[_DIAGONAL]}")
    config = checkpoint.model.config
    every = tuple(range(config.num_heads))
    for step, layer in product(range(len(_STEPS)), range(config.num_decoder_layers)):
        alone = " ".join(f"{measured[step, layer, (head,)].error:.3f}" for head in every)
        chosen = f"{choosing[step, layer, every].error:.3f} there, {measured[step, layer, every]} here"
        print(f"step that {_STEPS[step]}, layer {layer + 1}: sum of heads {chosen}; heads {alone}")
    for step, layer, heads in sorted(choosing, key=lambda heads: choosing[heads].error)[:3]:
        names = f"step that {_STEPS[step]}, layer {layer + 1}, heads {[head + 1 for head in heads]}"
        both = (choosing[step, layer, heads], measured[step, layer, heads])
        print(f"best: {names}: {both[0].error:.3f} there, {both[1]} here")


def align(aligner: Path, folder: Path) -> None:
    """Let an aligner write the links of the pieces in a folder, both ways."""
    names = {"-s": "source", "-t": "target", "-f": "forward", "-r": "reverse"}
    options = [word for option, name in names.items() for word in (option, str(folder / name))]
    subprocess.run([aligner, *options], check=True)  # noqa: S603 - the reader's own aligner


def main() -> None:
    """Align pairs and print rates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("pairs", type=Path, help="held-out pairs, source<TAB>target, gzip")
    parser.add_argument("more", type=Path, nargs="*", help="pairs that only help the aligner")
    parser.add_argument("--aligner", type=Path, required=True, help="such as eflomal-align")
    parser.add_argument("--count", type=int, default=1000, help="held-out pairs that are measured")
    parser.add_argument("--helping", type=int, default=200_000, help="pairs that help the aligner, at the most")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # with more, threads wait for one another over single sentences
    checkpoint = load_checkpoint(arguments.checkpoint)
    helping = list(read_pairs(arguments.more))
    helping = random.Random(1).sample(helping, min(arguments.helping, len(helping)))  # noqa: S311 - no secret
    pairs = list(read_pairs([arguments.pairs]))
    with tempfile.TemporaryDirectory() as name:
        write_pieces(checkpoint, Path(name), [*pairs, *helping])
        align(arguments.aligner, Path(name))
        measure(checkpoint, list(islice(aligned_pairs(Path(name), pairs), arguments.count)))


if __name__ == "__main__":
    main()
