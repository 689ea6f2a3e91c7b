"""A model together with its loss, as the module that is compiled and shared by processes."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from xuanzang.model.data.dataset import Batch
from xuanzang.model.tokenizer import PAD_ID
from xuanzang.model.training.optimization.loss import label_smoothed_cross_entropy


class Objective(nn.Module):
    """A model and the loss that it is trained to lower."""

    def __init__(self, model: nn.Module, *, label_smoothing: float, bf16: bool, compiled: bool = False) -> None:
        """Take a model.

        Args:
            model: Transformer, or the wrapper by which processes share its training.
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
