from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from xuanzang.model.training.loss import label_smoothed_cross_entropy

PAD = 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_value_and_gradient_are_torchs_own_over_several_chunks(dtype: torch.dtype) -> None:
    vocab = 300_000  # four rows to a chunk
    logits = torch.randn(9, vocab).to(dtype)
    target_ids = torch.tensor([5, vocab - 1, 2, PAD, 0, 7, PAD, 2, 9])
    mine, torchs = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    # The gradient of a copy, as the loss overwrites what it is given.
    loss = label_smoothed_cross_entropy(mine * 1, target_ids, PAD, 0.1)
    expected = F.cross_entropy(torchs.float(), target_ids, ignore_index=PAD, label_smoothing=0.1, reduction="sum")
    (loss / 3).backward()  # type: ignore[no-untyped-call]
    (expected / 3).backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(mine.grad, torchs.grad)
