"""The loss of a batch as a module: one graph for a compiler."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from xuanzang.model.data.dataset import Batch
from xuanzang.model.tokenizer import PAD_ID
from xuanzang.model.training.loss import label_smoothed_cross_entropy


class Objective(nn.Module):
    """A model and the loss that it is trained to lower."""

    def __init__(self, model: nn.Module, *, label_smoothing: float, bf16: bool, fusible: bool) -> None:
        """Take a model.

        Args:
            model: Transformer, or the wrapper by which processes share its training.
            label_smoothing: Probability given to all pieces alike.
            bf16: Compute in bfloat16 where it is safe.
            fusible: Leave the loss to torch's own functions, which a compiler fuses; otherwise it is computed in
                pieces that fit a CPU's cache.
        """
        super().__init__()
        self._model, self._smoothing, self._bf16, self._fusible = model, label_smoothing, bf16, fusible

    def forward(self, batch: Batch) -> Tensor:
        """Return the smoothed cross-entropy of a batch: a scalar, in nats, summed over target tokens."""
        with torch.autocast(batch.source_ids.device.type, torch.bfloat16, enabled=self._bf16):
            logits = self._model(batch.source_ids, batch.source_mask, batch.target_input_ids)
        if not self._fusible:
            return label_smoothed_cross_entropy(logits, batch.target_output_ids, PAD_ID, self._smoothing)
        return F.cross_entropy(
            logits.flatten(0, 1).float(),
            batch.target_output_ids.flatten(),
            ignore_index=PAD_ID,
            label_smoothing=self._smoothing,
            reduction="sum",
        )
