"""Enlargement of a trained Transformer that keeps its function (Net2Net, arXiv 1511.05641).

The cost of a translation depends on shapes, on lengths and on the differences between the hypotheses of a search, not
on the quality of the weights. So an untrained preset is measured with the weights of a small trained model: every width
is filled with copies, and added blocks contribute next to nothing. Translations, scores and searches are real ones.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from xuanzang.model.network.config import TransformerConfig
from xuanzang.model.network.transformer import Transformer

# Contribution of an added block to the residual stream, relative to the trained block with the same weights.
_QUIETNESS = 1e-4
_WRITERS = ("self_attention.output_projection", "cross_attention.output_projection", "feed_forward.outer")


@torch.no_grad()
def widened(trained: Transformer, config: TransformerConfig) -> Transformer:
    """Return a model of another shape that gives the same logits, up to rounding.

    Args:
        trained: Transformer with pre-norm blocks and one embedding for source, target and output.
        config: Configuration of the result, with learned positions. Widths are multiples of the trained model's, heads
            are as wide, blocks as many or more.

    Raises:
        ValueError: The trained model cannot be brought to this shape.
    """
    small = trained.config
    whole = not (config.d_model % small.d_model or config.d_ff % small.d_ff) and config.d_head == small.d_head
    if not whole or config.positions != "learned":
        raise ValueError(f"a model of width {small.d_model} cannot be widened to {config}")
    model = Transformer(config).eval()
    known = dict(trained.named_parameters())
    for side in ("source", "target"):
        known[f"{side}_positions.table"] = getattr(trained, f"{side}_positions").table
    copies = config.d_model // small.d_model
    for name, parameter in model.named_parameters():
        origin, added = _origin(name, small)
        filled = _filled(known[origin], parameter.shape)
        if origin.endswith("embedding.weight"):
            filled /= math.sqrt(copies)  # offsets the factor √d_model of the embedding
        elif origin.startswith("decoder_norm"):
            filled /= math.sqrt(copies)  # the output projection, which is the embedding, sums all copies
        elif parameter.dim() == 2 and not origin.endswith("table"):
            filled /= parameter.shape[1] // known[origin].shape[1]  # the sum over copies stays the same
        if added and ".".join(name.split(".")[2:-1]) in _WRITERS:
            filled *= _QUIETNESS
        parameter.copy_(filled)
    return model


def _origin(name: str, small: TransformerConfig) -> tuple[str, bool]:
    """Return the name of the trained parameter to copy, and whether the block is an added one."""
    part, *rest = name.split(".")
    if part not in ("encoder_layers", "decoder_layers"):
        return name, False
    count = small.num_encoder_layers if part == "encoder_layers" else small.num_decoder_layers
    return ".".join([part, str(int(rest[0]) % count), *rest[1:]]), int(rest[0]) >= count


def _filled(values: Tensor, shape: torch.Size) -> Tensor:
    """Return a tensor of this shape, filled with copies of the values."""
    return values.detach().repeat([wanted // size for wanted, size in zip(shape, values.shape, strict=True)]).clone()
