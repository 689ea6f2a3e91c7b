"""Ranges of the activations that enter each linear layer, observed on real sentences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xuanzang.export.examples import Example
from xuanzang.export.graphs.precision import ActivationRange, FloatArray
from xuanzang.model.beams import Hypothesis
from xuanzang.model.network.arrays import ArrayNetwork, pad
from xuanzang.model.stored_checkpoint import StoredCheckpoint

QUANTILE = 0.99999
"""Share of the activations that a range covers; the rest is clipped."""


CalibrationIds = tuple[list[int], list[int]]
"""Source ids of a sentence, and the decoder's inputs (bos first) for its translation."""


def reference_ids(checkpoint: StoredCheckpoint, examples: Sequence[Example]) -> list[CalibrationIds]:
    """Return the ids of sentences and their references, as `calibrate` takes them."""
    bos_id, encode = checkpoint.config.bos_id, checkpoint.target_tokenizer.encode
    return [
        (example.source_ids, [bos_id, *example.prefix_ids, *encode(example.reference or "")[:-1]])
        for example in examples
    ]


def translation_ids(
    checkpoint: StoredCheckpoint, examples: Sequence[Example], found: Sequence[Sequence[Hypothesis]]
) -> list[CalibrationIds]:
    """Return the ids of sentences and of the translations that were found, for want of references."""
    bos_id = checkpoint.config.bos_id
    return [
        (example.source_ids, [bos_id, *hypotheses[0].target_ids])
        for example, hypotheses in zip(examples, found, strict=False)
    ]


def calibrate(
    network: ArrayNetwork, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], *, batch_sentences: int = 16
) -> dict[str, ActivationRange]:
    """Run sentence pairs through the model and return the input range of every linear layer.

    Args:
        network: Model to run.
        pairs: Source ids and decoder input ids (bos first) of real sentences.
        batch_sentences: Sentences run together.

    Returns:
        Ranges by name of the layer, each the widest, over batches, of the quantiles within a batch.
    """
    ranges: dict[str, ActivationRange] = {}

    def observe(name: str, inputs: FloatArray) -> None:
        low, high = -_upper_quantile(-inputs), _upper_quantile(inputs)
        known = ranges.get(name, ActivationRange(0.0, 0.0))
        ranges[name] = ActivationRange(min(low, known.low), max(high, known.high))

    # Sentences of like length share a batch, so that padding, which no real token ever is, stays out of the ranges.
    ordered = sorted(pairs, key=lambda pair: (len(pair[0]), len(pair[1])))
    for start in range(0, len(ordered), batch_sentences):
        sources, targets = zip(*ordered[start : start + batch_sentences], strict=True)
        target_ids, _ = pad(targets, network.config.pad_id)
        # Logits over hundreds of thousands of pieces, which nothing is made of, would take most of the time.
        states = network.observed_states(*pad(sources, network.config.pad_id), target_ids, observe)
        observe("output_projection", states)
    return ranges


def _upper_quantile(values: FloatArray) -> float:
    """Return the value that the share QUANTILE of [..., in] does not exceed."""
    rest = max(1, round(values.size * (1 - QUANTILE)))
    maxima = values.max(axis=-1).ravel()
    # The greatest values are not below as many of the rows' maxima, which are far fewer.
    bound = np.partition(maxima, -rest)[-rest] if rest <= maxima.size else -np.inf
    return float(np.partition(values[values >= bound], -rest)[-rest])
