"""Ranges of the activations that enter each linear layer, observed on real sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from xuanzang.export.graphs.precision import ActivationRange
from xuanzang.model.checkpoint import Checkpoint
from xuanzang.model.data.corpus import Pair
from xuanzang.model.data.dataset import pad_rows, pad_sentences
from xuanzang.model.transformer import Transformer

QUANTILE = 0.99999
"""Share of the activations that a range covers; the rest is clipped."""


def calibration_ids(checkpoint: Checkpoint, pairs: Sequence[Pair]) -> list[tuple[list[int], list[int]]]:
    """Return the source ids and decoder input ids (bos first) of sentence pairs, as `calibrate` takes them."""
    first = [checkpoint.model.config.bos_id, *checkpoint.target_prefix_ids]
    return [
        (checkpoint.source_ids(pair.source), [*first, *checkpoint.target_tokenizer.encode(pair.target)[:-1]])
        for pair in pairs
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
    handles = [module.register_forward_pre_hook(_observer(ranges, name)) for name, module in linears.items()]
    try:
        # Sentences of like length share a batch, so that padding, which no real token ever is, stays out of the ranges.
        ordered = sorted(pairs, key=lambda pair: (len(pair[0]), len(pair[1])))
        for start in range(0, len(ordered), batch_sentences):
            _run(model, ordered[start : start + batch_sentences])
    finally:
        for handle in handles:
            handle.remove()
    return ranges


def _run(model: Transformer, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> None:
    sources, targets = zip(*pairs, strict=True)
    model(*pad_sentences(sources, model.config.pad_id), pad_rows(targets, model.config.pad_id))


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
