"""The card of a folder of prepared data: what went into it, corpus by corpus."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from xuanzang.model.data.metadata import PreparedMetadata

CARD_FILE = "data_card.json"


def write_card(folder: Path, metadata: PreparedMetadata, counts: Mapping[str, Counter[str]]) -> None:
    """Write data_card.json: for each corpus its pairs, its weight, its share of an epoch, and what was dropped and why.

    Args:
        folder: Folder of the training ids.
        metadata: Description of the folder.
        counts: Number of "kept" pairs and of each reason to drop, for every corpus that was read; the others were made.
    """
    corpus_ids = np.load(folder / "train.corpus.npy")
    pairs = np.bincount(corpus_ids, minlength=len(metadata.corpora))
    seen = pairs * np.asarray(metadata.weights)
    corpora = {
        name: {
            "offered": counts[name].total() if name in counts else 0,
            "pairs": int(pairs[i]),
            "weight": metadata.weights[i],
            "share": round(float(seen[i] / seen.sum()), 5),
            "dropped": {reason: count for reason, count in sorted(counts.get(name, {}).items()) if reason != "kept"},
        }
        for i, name in enumerate(metadata.corpora)
    }
    card = {"pairs_per_epoch": round(float(seen.sum())), "corpora": corpora}
    (folder / CARD_FILE).write_text(json.dumps(card, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
