"""Alignment by attention: the decoder's layers and heads against words aligned by hand.

    xuanzang restore server/models/zh-en/4 bundled
    python model/recipes/alignment.py bundled model/recipes/zh-en/alignments.tsv

Each line of the file has a sentence, its translation, and pairs of words that translate each other. The translation is
forced. A word counts as found if the source token that its first token attends to most overlaps the word's origin;
ends of sentences and punctuation do not count as such.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from xuanzang.model.checkpoint import load_checkpoint
from xuanzang.model.evaluation.attention_maps import AttentionMaps, attention_maps

Span = tuple[int, int]


def spans(pieces: list[str], text: str) -> list[Span]:
    """Return the characters of a text that each piece stands for; the end token stands for none."""
    found: list[Span] = []
    place = 0
    for piece in pieces:
        characters = piece.replace("\u2581", "").strip()
        start = text.find(characters, place) if characters else -1
        if start < 0:
            found.append((place, place))
        else:
            place = start + len(characters)
            found.append((start, place))
    return found


def overlap(first: Span, second: Span) -> bool:
    """Return whether two spans share characters."""
    return max(first[0], second[0]) < min(first[1], second[1])


def found_words(
    maps: AttentionMaps, source: str, target: str, pairs: Mapping[str, str]
) -> Iterator[tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]]:
    """Yield for each pair whether each head of each layer, and the mean of each layer's heads, finds it."""
    sources, targets = spans(maps.source_pieces, source), spans(maps.target_output_pieces, target)
    for origin, word in pairs.items():
        ours = (source.index(origin), source.index(origin) + len(origin))
        theirs = (target.index(word), target.index(word) + len(word))
        row = next(index for index, span in enumerate(targets) if overlap(span, theirs))
        right = np.array([overlap(span, ours) for span in sources])
        weights = maps.cross_attention[:, :, row]  # [layer, heads, source]
        yield right[weights.argmax(axis=-1)], right[weights.mean(axis=1).argmax(axis=-1)]


def main() -> None:
    """Print the share of the words that each layer and head finds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("alignments", type=Path)
    arguments = parser.parse_args()
    checkpoint = load_checkpoint(arguments.checkpoint)
    heads, means = [], []
    for line in arguments.alignments.read_text(encoding="utf-8").splitlines():
        source, target, pairs = line.split("\t")
        maps = attention_maps(checkpoint, source, target)
        words = dict(pair.split("=") for pair in pairs.split())
        for by_head, by_layer in found_words(maps, source, target, words):
            heads.append(by_head)
            means.append(by_layer)
    print(f"{len(heads)} words")
    for layer, (shares, mean) in enumerate(zip(np.mean(heads, axis=0), np.mean(means, axis=0), strict=True), start=1):
        each = "  ".join(f"{share:.1%}" for share in shares)
        print(f"layer {layer}: mean of heads {mean:.1%}; heads {each}")


if __name__ == "__main__":
    main()
