"""Coverage of a source by attention, which finds fluent but unrelated output."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from xuanzang.model.checkpoint import Checkpoint
from xuanzang.model.inspection.attention_maps import attention_maps

LOW_COVERAGE = 0.6
"""Coverage below which a translation may have little to do with its source; docs/training.md says how surely."""


class Coverage(NamedTuple):
    """Coverage of the sources of a test set."""

    mean: float
    """Mean over sentences, 0 to 1."""
    low: int
    """Sentences whose coverage is below LOW_COVERAGE."""
    sentences: int

    def __str__(self) -> str:
        """Return one line for people."""
        return f"source covered by attention: {self.mean:.3f}; below {LOW_COVERAGE}: {self.low} of {self.sentences}"


def source_coverage(checkpoint: Checkpoint, source: str, translation: str) -> float:
    """Return the share of source tokens that the decoder attended to while it wrote a translation, 0 to 1.

    Of each source token counts the attention of all target tokens to it, averaged over layers and heads, at most 1; the
    result is the mean over tokens, eos left out.

    Args:
        checkpoint: Model and tokenisers.
        translation: Its translation, by this model or not.

    Source: the coverage penalty of arXiv 1609.08144, equation 14, without its logarithm.
    """
    weights = attention_maps(checkpoint, source, translation).cross_attention.mean(axis=(0, 1))  # [target, source]
    return float(np.minimum(weights.sum(axis=0)[:-1], 1.0).mean())


def measure_coverage(checkpoint: Checkpoint, sources: Sequence[str], translations: Sequence[str]) -> Coverage:
    """Measure the coverage of a test set.

    Args:
        checkpoint: Model and tokenisers.
        sources: Sentences, at least one.
        translations: Translations, one per sentence.
    """
    pairs = tqdm(zip(sources, translations, strict=True), "coverage", len(sources), leave=False, file=sys.stderr)
    found = [source_coverage(checkpoint, *pair) for pair in pairs]
    return Coverage(float(np.mean(found)), sum(value < LOW_COVERAGE for value in found), len(found))
