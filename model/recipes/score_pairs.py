"""Score pairs by a model, to keep those whose target it expects: back-translations that say what the target says.

    python model/recipes/score_pairs.py CHECKPOINT PAIRS.tsv.gz KEPT.tsv.gz --max-loss 2.5

The model reads the sources of the pairs and is told the targets. Their cross-entropy, in nats per token, is high where
the source says something else: one half of the dual conditional cross-entropy of Junczys-Dowmunt 2018
(arXiv 1809.00197). The histogram that is printed shows what other limits would keep.
"""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence
from tqdm import tqdm

from xuanzang.model.checkpoint import Checkpoint, load_checkpoint
from xuanzang.model.data.corpus import Pair, read_pairs
from xuanzang.model.tokenizer import BOS_ID, EOS_ID, PAD_ID

BATCH_TOKENS = 4096
"""Target positions of a batch, padding counted."""
LIMITS = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0)
"""Losses of the histogram, nats per token."""


def batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield the indices of targets of like length, of at most `BATCH_TOKENS` positions together."""
    order = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)
    start = 0
    while start < len(order):
        end = start + max(1, BATCH_TOKENS // lengths[order[start]])
        yield order[start:end]
        start = end


def padded(sequences: Sequence[Sequence[int]]) -> Tensor:
    """Return ids as one tensor, [batch, length]."""
    return pad_sequence([torch.tensor(ids) for ids in sequences], batch_first=True, padding_value=PAD_ID)


@torch.inference_mode()
def losses(checkpoint: Checkpoint, pairs: Sequence[Pair]) -> npt.NDArray[np.float64]:
    """Return the cross-entropy of each pair's target, nats per token, end token counted, [pair]."""
    limit = checkpoint.model.config.max_positions
    sources = [checkpoint.source_ids(pair.source)[:limit] for pair in pairs]
    targets = [checkpoint.target_tokenizer.encode(pair.target)[:limit] for pair in pairs]
    found = np.empty(len(pairs))
    with tqdm(total=len(pairs), unit="pair", desc="scoring", mininterval=1) as bar:
        for indices in batches([len(ids) for ids in targets]):
            source, target = padded([sources[i] for i in indices]), padded([targets[i] for i in indices])
            given = F.pad(target[:, :-1], (1, 0), value=BOS_ID)
            given = given.masked_fill(given == EOS_ID, PAD_ID)
            with torch.autocast("cpu", torch.bfloat16):
                logits = checkpoint.model(source, source != PAD_ID, given)
            nats = F.cross_entropy(logits.transpose(1, 2).float(), target, ignore_index=PAD_ID, reduction="none")
            found[indices] = (nats.sum(dim=1) / (target != PAD_ID).sum(dim=1)).numpy()
            bar.update(len(indices))
    return found


def main() -> None:
    """Write the pairs below the limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "checkpoint", type=Path, help="model of the direction of the pairs, or with --swap of the other"
    )
    parser.add_argument("pairs", type=Path, help="source<TAB>target lines, plain or gzip")
    parser.add_argument("kept", type=Path, help="gzip file to write the pairs to that are kept")
    parser.add_argument("--max-loss", type=float, default=2.5, help="nats per target token (default: 2.5)")
    parser.add_argument("--swap", action="store_true", help="score the first column, given the second")
    flags = parser.parse_args()
    rows = [pair for pair in read_pairs(flags.pairs) if pair.source and pair.target]
    asked = [Pair(pair.target, pair.source) for pair in rows] if flags.swap else rows
    found = losses(load_checkpoint(flags.checkpoint), asked)
    for limit in LIMITS:
        print(f"below {limit} nats per token: {(found < limit).mean():6.1%}")
    kept = [pair for pair, loss in zip(rows, found, strict=True) if loss <= flags.max_loss]
    with gzip.open(flags.kept, "wt", encoding="utf-8") as file:
        file.writelines(f"{pair.source}\t{pair.target}\n" for pair in kept)
    print(f"{flags.kept}: {len(kept):,} of {len(rows):,} pairs")


if __name__ == "__main__":
    main()
