"""Scaled dot-product and multi-head attention, with the worked numbers of the articles that the model explains."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from xuanzang.model.network.attention import MultiHeadAttention

CAUSAL = torch.ones(5, 5, dtype=torch.bool).tril()
PADDING = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])


@pytest.mark.parametrize("need_weights", [False, True])
def test_a_query_that_sees_no_key_gets_zeros_and_not_nan(need_weights: bool) -> None:
    attention = MultiHeadAttention(16, 2).eval()
    mask = torch.tensor([True, False, True])[:, None].expand(3, 4)
    query, key = torch.randn(1, 3, 16, requires_grad=True), torch.randn(1, 4, 16)
    output, weights = attention(query, key, key, mask, need_weights=need_weights)
    torch.testing.assert_close(output[0, 1], attention.output_projection.bias)
    if need_weights:
        assert weights[0, :, 1].eq(0).all()
    output.sum().backward()
    assert query.grad is not None
    assert query.grad.isfinite().all()


def torch_attention(attention: MultiHeadAttention, d_model: int, num_heads: int) -> nn.MultiheadAttention:
    """torch's own module with the same weights."""
    theirs = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
    projections = (attention.query_projection, attention.key_projection, attention.value_projection)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([projection.weight for projection in projections]))
        theirs.in_proj_bias.copy_(torch.cat([projection.bias for projection in projections]))
        theirs.out_proj.load_state_dict(attention.output_projection.state_dict())
    return theirs


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("padding", [False, True])
@pytest.mark.parametrize("need_weights", [False, True])
def test_equals_multihead_attention_of_torch_with_its_maps(causal: bool, padding: bool, need_weights: bool) -> None:
    ours = MultiHeadAttention(32, 4)
    query, key, value = torch.randn(3, 2, 5, 32)
    mask = torch.ones(2, 1, 5, 5, dtype=torch.bool)
    mask = mask & CAUSAL if causal else mask
    mask = mask & PADDING[:, None, None, :] if padding else mask
    output, weights = ours(query, key, value, mask, need_weights=need_weights)
    expected, expected_weights = torch_attention(ours, 32, 4)(
        query,
        key,
        value,
        key_padding_mask=~PADDING if padding else None,
        attn_mask=~CAUSAL if causal else None,
        average_attn_weights=False,
    )
    torch.testing.assert_close(output, expected, atol=1e-5, rtol=0)
    if need_weights:
        torch.testing.assert_close(weights, expected_weights, atol=1e-5, rtol=0)
    else:
        assert weights is None


@pytest.mark.parametrize("mask", [CAUSAL, PADDING[:, None, None, :], None], ids=["causal", "padding", "none"])
def test_what_is_trained_on_a_cpu_is_what_translates(mask: Tensor | None) -> None:
    torch.manual_seed(0)
    attention, x = MultiHeadAttention(16, 4), torch.randn(2, 5, 16)
    trained, weights = attention.train()(x, x, x, mask)
    assert weights is None
    torch.testing.assert_close(trained, attention.eval()(x, x, x, mask)[0])
