from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from xuanzang.model.training.loss import label_smoothed_cross_entropy

PAD = 3


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.4])
def test_equals_the_kl_divergence_to_the_smoothed_targets_up_to_their_entropy(smoothing: float) -> None:
    logits, target_ids = torch.randn(2, 5, 11), torch.tensor([[4, 5, 6, 7, 2], [9, 10, 2, PAD, PAD]])
    smoothed = F.one_hot(target_ids, 11) * (1 - smoothing) + smoothing / 11
    real = target_ids != PAD
    divergence = F.kl_div(logits.log_softmax(-1), smoothed, reduction="none").sum(-1)[real].sum()
    entropy = torch.special.entr(smoothed).sum(-1)[real].sum()
    loss = label_smoothed_cross_entropy(logits, target_ids, PAD, smoothing)
    torch.testing.assert_close(loss, divergence + entropy)


def test_logits_at_padding_have_no_influence() -> None:
    logits, target_ids = torch.randn(1, 3, 7, requires_grad=True), torch.tensor([[4, 2, PAD]])
    label_smoothed_cross_entropy(logits, target_ids, PAD, 0.1).backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    assert logits.grad[0, 2].eq(0).all()
    assert logits.grad[0, :2].ne(0).all()


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
