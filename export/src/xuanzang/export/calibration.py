"""Ranges of the activations that enter each linear layer, observed on real sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from xuanzang.export.examples import Example
from xuanzang.export.graphs.precision import ActivationRange
from xuanzang.model.checkpoint import Checkpoint
from xuanzang.model.data.dataset import pad_rows, pad_sentences
from xuanzang.model.network.transformer import Transformer
from xuanzang.model.search import Hypothesis

QUANTILE = 0.99999
"""Share of the activations that a range covers; the rest is clipped."""


CalibrationIds = tuple[list[int], list[int]]
"""Source ids of a sentence, and the decoder's inputs (bos first) for its translation."""


def reference_ids(checkpoint: Checkpoint, examples: Sequence[Example]) -> list[CalibrationIds]:
    """Return the ids of sentences and their references, as `calibrate` takes them."""
    bos_id, encode = checkpoint.model.config.bos_id, checkpoint.target_tokenizer.encode
    return [
        (example.source_ids, [bos_id, *example.prefix_ids, *encode(example.reference or "")[:-1]])
        for example in examples
    ]


def translation_ids(
    checkpoint: Checkpoint, examples: Sequence[Example], found: Sequence[Sequence[Hypothesis]]
) -> list[CalibrationIds]:
    """Return the ids of sentences and of the translations that were found, for want of references."""
    bos_id = checkpoint.model.config.bos_id
    return [
        (example.source_ids, [bos_id, *hypotheses[0].target_ids])
        for example, hypotheses in zip(examples, found, strict=False)
    ]


@torch.inference_mode()
def calibrate(
    model: Transformer, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], *, batch_sentences: int = 16
) -> dict[str, ActivationRange]:
    """Run sentence pairs through the model and return the input range of every linear layer.

    Args:
        model: Torch model in evaluation mode.
        pairs: Source ids and decoder input ids (bos first) of real sentences.
        batch_sentences: Sentences run together.

    Returns:
        Ranges by module name, each the widest, over batches, of the quantiles within a batch.
    """
    ranges: dict[str, ActivationRange] = {}
    linears = {name: module for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    observe_output = _observer(ranges, "output_projection")
    handles = [module.register_forward_pre_hook(_observer(ranges, name)) for name, module in linears.items()]
    try:
        # Sentences of like length share a batch, so that padding, which no real token ever is, stays out of the ranges.
        ordered = sorted(pairs, key=lambda pair: (len(pair[0]), len(pair[1])))
        for start in range(0, len(ordered), batch_sentences):
            # Logits over hundreds of thousands of pieces, which nothing is made of, would take most of the time.
            observe_output(model, (_run(model, ordered[start : start + batch_sentences]),))
    finally:
        for handle in handles:
            handle.remove()
    return ranges


def _run(model: Transformer, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Tensor:
    sources, targets = zip(*pairs, strict=True)
    source_ids, mask = pad_sentences(sources, model.config.pad_id)
    return model.decoder_states(pad_rows(targets, model.config.pad_id), model.encode(source_ids, mask), mask)


def _observer(ranges: dict[str, ActivationRange], name: str) -> Callable[[nn.Module, tuple[Any, ...]], None]:
    def observe(_module: nn.Module, inputs: tuple[Any, ...]) -> None:
        low, high = _quantiles(inputs[0])
        known = ranges.get(name, ActivationRange(0.0, 0.0))
        ranges[name] = ActivationRange(min(low, known.low), max(high, known.high))

    return observe


def _quantiles(values: Tensor) -> tuple[float, float]:
    flat = values.flatten()
    rest = max(1, round(flat.numel() * (1 - QUANTILE)))
    # With so few left out, a top-k is faster than `kthvalue`.
    low = flat.topk(rest, largest=False).values.max()
    high = flat.topk(rest).values.min()
    return float(low), float(high)
