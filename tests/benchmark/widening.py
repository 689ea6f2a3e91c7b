"""A trained Transformer in a larger shape that computes the same function (Net2Net, arXiv 1511.05641).

What a translation costs depends on shapes, on lengths and on how the hypotheses of a search differ, not on what the
weights know. So a preset that nobody has trained is measured with the weights of a small trained model: every width
is filled with copies, and added blocks contribute next to nothing. Its translations, scores and searches are real ones.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from xuanzang.model.config import TransformerConfig
from xuanzang.model.transformer import Transformer

# What added blocks add to the stream, as a share of what the trained block does whose weights they have.
_QUIETNESS = 1e-4
_WRITERS = ("self_attention.output_projection", "cross_attention.output_projection", "feed_forward.outer")


@torch.no_grad()
def widened(trained: Transformer, config: TransformerConfig) -> Transformer:
    """Return a model of another shape that gives the same logits, up to rounding.

    Args:
        trained: With pre-norm blocks and one embedding for source, target and output.
        config: Of the shape wanted, with learned positions. Widths are multiples of the trained model's, heads are as
            wide, blocks as many or more.

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
            filled /= math.sqrt(copies)  # against the factor √d_model that the embedding gets
        elif origin.startswith("decoder_norm"):
            filled /= math.sqrt(copies)  # the output projection, which is the embedding, adds up all copies
        elif parameter.dim() == 2 and not origin.endswith("table"):
            filled /= parameter.shape[1] // known[origin].shape[1]  # a sum over copies is to stay what it was
        if added and ".".join(name.split(".")[2:-1]) in _WRITERS:
            filled *= _QUIETNESS
        parameter.copy_(filled)
    return model


def _origin(name: str, small: TransformerConfig) -> tuple[str, bool]:
    """Return whose weights a parameter gets, and whether its block is an added one."""
    part, *rest = name.split(".")
    if part not in ("encoder_layers", "decoder_layers"):
        return name, False
    count = small.num_encoder_layers if part == "encoder_layers" else small.num_decoder_layers
    return ".".join([part, str(int(rest[0]) % count), *rest[1:]]), int(rest[0]) >= count


def _filled(values: Tensor, shape: torch.Size) -> Tensor:
    """Return copies of a tensor side by side."""
    return values.detach().repeat([wanted // size for wanted, size in zip(shape, values.shape, strict=True)]).clone()
