"""The training objective."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F


def label_smoothed_cross_entropy(logits: Tensor, target_ids: Tensor, pad_id: int, smoothing: float) -> Tensor:
    """Sum the cross-entropy against targets that keep `smoothing` of their mass for all pieces alike.

    Args:
        logits: [..., vocab].
        target_ids: [...], int64; positions of `pad_id` count as nothing.
        pad_id: Id that marks padding.
        smoothing: ε, 0 gives plain cross-entropy.

    Returns:
        Scalar, in nats, summed over tokens: differs from the KL divergence to the smoothed targets by their entropy
        only.

    Source: section 5.4 of arXiv 1706.03762 (ε = 0.1), after arXiv 1512.00567.
    """
    return F.cross_entropy(
        logits.flatten(0, -2).float(),
        target_ids.flatten(),
        ignore_index=pad_id,
        label_smoothing=smoothing,
        reduction="sum",
    )
