"""Scaled dot-product and multi-head attention, with the worked numbers of the articles that the model explains."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from xuanzang.model.network.attention import MultiHeadAttention, scaled_dot_product_attention

CAUSAL = torch.ones(5, 5, dtype=torch.bool).tril()
PADDING = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])


def numbers(*rows: list[float]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float32)


def test_worked_numbers_of_the_first_example() -> None:
    query = numbers([1, 1], [1, 0]) @ numbers([1, 1], [0, 1])
    assert query.tolist() == [[1, 2], [1, 1]]
    identity = torch.eye(2)
    torch.testing.assert_close(
        query @ identity.T / math.sqrt(2), numbers([0.71, 1.41], [0.71, 0.71]), atol=0.005, rtol=0
    )
    output, weights = scaled_dot_product_attention(query, identity, identity)
    expected = numbers([0.33, 0.67], [0.50, 0.50])
    torch.testing.assert_close(weights, expected, atol=0.005, rtol=0)
    torch.testing.assert_close(output, expected, atol=0.005, rtol=0)


def test_worked_numbers_of_the_second_example_which_leaves_the_scale_out() -> None:
    x = numbers([1, 0, 0], [0, 2, 2])
    query = x @ numbers([1, 0], [1, 0], [0, 1])
    key = x @ numbers([0, 1], [1, 0], [1, 0])
    value = x @ numbers([2, 0], [3, 0], [0, 3])
    assert (query.tolist(), key.tolist(), value.tolist()) == ([[1, 0], [2, 2]], [[0, 1], [4, 0]], [[2, 0], [6, 6]])
    assert (query @ key.T).tolist() == [[0, 4], [2, 8]]
    output, weights = scaled_dot_product_attention(query * math.sqrt(2), key, value)
    torch.testing.assert_close(weights, numbers([0.0180, 0.9820], [0.0025, 0.9975]), atol=5e-5, rtol=0)
    torch.testing.assert_close(output, numbers([5.928, 5.892], [5.990, 5.985]), atol=5e-4, rtol=0)


def test_rows_of_the_third_example_sum_to_one() -> None:
    x = numbers([1, 3, 2], [1, 1, 3], [1, 2, 1])
    _, weights = scaled_dot_product_attention(x * math.sqrt(3), x, x)
    torch.testing.assert_close(weights, (x @ x.T).softmax(-1))
    torch.testing.assert_close(weights.sum(-1), torch.ones(3))


@pytest.mark.parametrize("mask", [None, CAUSAL, PADDING[:, None, None, :], CAUSAL & PADDING[:, None, None, :]])
def test_equals_the_fused_attention_of_torch(mask: Tensor | None) -> None:
    query, key, value = torch.randn(3, 2, 4, 5, 8)
    output, weights = scaled_dot_product_attention(query, key, value, mask)
    torch.testing.assert_close(output, F.scaled_dot_product_attention(query, key, value, attn_mask=mask))
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 4, 5))


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


def test_scale_is_the_root_of_the_head_size_not_of_the_model_size() -> None:
    attention = MultiHeadAttention(8, 4)
    query = torch.randn(1, 3, 8)
    _, weights = attention(query, query, query, need_weights=True)
    head = slice(0, 2)
    scores = attention.query_projection(query)[..., head] @ attention.key_projection(query)[..., head].transpose(1, 2)
    torch.testing.assert_close(weights[:, 0], (scores / math.sqrt(2)).softmax(-1))


def test_permuting_keys_with_their_values_changes_no_output() -> None:
    attention = MultiHeadAttention(16, 2)
    query, key, value = torch.randn(3, 1, 6, 16)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    torch.testing.assert_close(attention(query, key, value)[0], attention(query, key[:, order], value[:, order])[0])


@pytest.mark.parametrize("mask", [CAUSAL, PADDING[:, None, None, :], None], ids=["causal", "padding", "none"])
def test_what_is_trained_on_a_cpu_is_what_translates(mask: Tensor | None) -> None:
    torch.manual_seed(0)
    attention, x = MultiHeadAttention(16, 4), torch.randn(2, 5, 16)
    trained, weights = attention.train()(x, x, x, mask)
    assert weights is None
    torch.testing.assert_close(trained, attention.eval()(x, x, x, mask)[0])
