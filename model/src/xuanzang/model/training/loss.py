"""The model together with its loss: label-smoothed cross-entropy, in pieces that fit the cache of a CPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from xuanzang.model.data.dataset import Batch
from xuanzang.model.tokenizer import PAD_ID


class Objective(nn.Module):
    """A model and the loss that it is trained to lower."""

    def __init__(self, model: nn.Module, *, label_smoothing: float, bf16: bool, compiled: bool = False) -> None:
        """Take a model.

        Args:
            model: Transformer, or the wrapper that shares its training among processes.
            label_smoothing: Probability given to all pieces alike.
            bf16: Compute in bfloat16 where it is safe.
        """
        super().__init__()
        self._model, self._smoothing, self._bf16 = model, label_smoothing, bf16
        self._gpu_loss = torch.compile(_cross_entropy, dynamic=True) if compiled else _cross_entropy

    def forward(self, batch: Batch) -> Tensor:
        """Return the smoothed cross-entropy of a batch: a scalar, in nats, summed over target tokens."""
        device = batch.source_ids.device.type
        with torch.autocast(device, torch.bfloat16, enabled=self._bf16):
            logits = self._model(batch.source_ids, batch.source_mask, batch.target_input_ids)
        if device == "cpu":  # in pieces that fit its cache
            return label_smoothed_cross_entropy(logits, batch.target_output_ids, PAD_ID, self._smoothing)
        return self._gpu_loss(logits, batch.target_output_ids, self._smoothing)


def _cross_entropy(logits: Tensor, target_ids: Tensor, smoothing: float) -> Tensor:
    return F.cross_entropy(
        logits.flatten(0, 1).float(),
        target_ids.flatten(),
        ignore_index=PAD_ID,
        label_smoothing=smoothing,
        reduction="sum",
    )


_CHUNK_BYTES = 2**22
"""Size of the float32 logits worked on at a time: on CPU they stay in the cache, which halves a training step."""


def label_smoothed_cross_entropy(logits: Tensor, target_ids: Tensor, pad_id: int, smoothing: float) -> Tensor:
    """Sum the cross-entropy against targets that keep `smoothing` of their mass for all pieces alike.

    Args:
        logits: [..., vocab].
        target_ids: [...], int64; positions of `pad_id` add nothing.
        pad_id: Id that marks padding.
        smoothing: ε, 0 gives plain cross-entropy.

    Returns:
        Scalar, in nats, float32, summed over tokens: differs from the KL divergence to the smoothed targets by their
        entropy only.

    Its backward pass overwrites the logits.

    Source: section 5.4 of arXiv 1706.03762 (ε = 0.1), after arXiv 1512.00567.
    """
    total: Tensor = _ChunkedCrossEntropy.apply(logits.flatten(0, -2), target_ids.flatten(), pad_id, smoothing)  # type: ignore[no-untyped-call]
    return total


class _ChunkedCrossEntropy(torch.autograd.Function):
    """Cross-entropy that never holds float32 probabilities of all positions."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, target_ids: Tensor, pad_id: int, smoothing: float) -> Tensor:
        real = target_ids != pad_id
        normalizers, means = logits.new_empty((2, len(logits)), dtype=torch.float32)
        for rows, chunk in _chunks(logits):
            means[rows], peaks = chunk.mean(dim=1), chunk.amax(dim=1)
            normalizers[rows] = chunk.sub_(peaks[:, None]).exp_().sum(dim=1).log_().add_(peaks)
        wanted = logits.gather(1, target_ids[:, None])[:, 0].float()
        ctx.save_for_backward(logits, target_ids, real, normalizers)
        ctx.smoothing = smoothing
        losses = normalizers - (1 - smoothing) * wanted - smoothing * means
        return losses.where(real, 0.0).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        logits, target_ids, real, normalizers = ctx.saved_tensors
        scale = (grad * real)[:, None]
        for rows, chunk in _chunks(logits):
            # softmax − smoothed one-hot
            chunk.sub_(normalizers[rows, None]).exp_().sub_(ctx.smoothing / logits.size(1))
            chunk.scatter_add_(1, target_ids[rows, None], chunk.new_full((len(chunk), 1), ctx.smoothing - 1))
            # Replaces the logits, which are no longer needed: on CPU as much new memory costs a fifth of the step.
            logits[rows] = chunk.mul_(scale[rows])
        return logits, None, None, None


def _chunks(logits: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Yield slices of the rows, and a float32 copy of each that the next one overwrites."""
    size = max(1, _CHUNK_BYTES // (4 * logits.size(1)))
    scratch = logits.new_empty((size, logits.size(1)), dtype=torch.float32)
    for start in range(0, len(logits), size):
        rows = slice(start, min(start + size, len(logits)))
        yield rows, scratch[: rows.stop - start].copy_(logits[rows])
