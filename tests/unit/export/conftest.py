"""Small Transformers of every kind that can be exported."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from xuanzang.model.checkpoint import network_of
from xuanzang.model.network.arrays import ArrayNetwork
from xuanzang.model.network.config import PRESETS, TransformerConfig
from xuanzang.model.network.transformer import Transformer

TINY = TransformerConfig(source_vocab_size=61, target_vocab_size=61, **PRESETS["tiny"])
CONFIGS = {
    "pre-norm": TINY,
    "post-norm": dataclasses.replace(TINY, norm="post"),
    "learned positions": dataclasses.replace(TINY, positions="learned"),
    "separate vocabularies": dataclasses.replace(TINY, target_vocab_size=47, share_embeddings=False),
    "untied output": dataclasses.replace(TINY, tie_output=False),
    "as Marian": dataclasses.replace(
        TINY,
        norm="post",
        positions="sinusoidal_halves",
        activation="swish",
        output_bias=True,
        bos_id=3,
        banned_ids=(3, 7, 11),
    ),
    "as mBART": dataclasses.replace(TINY, positions="sinusoidal_fairseq", activation="gelu", embedding_norm=True),
    "not scaled": dataclasses.replace(TINY, scale_embeddings=False),
    "deep encoder, shallow decoder": dataclasses.replace(TINY, num_encoder_layers=4, num_decoder_layers=1),
}


@pytest.fixture(params=CONFIGS)
def model(request: pytest.FixtureRequest) -> Transformer:
    """Return a model with lively random weights, biases and norms included."""
    torch.manual_seed(5)
    model = Transformer(CONFIGS[request.param]).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
            elif "embedding" not in name:
                parameter.mul_(1.5)
    return model


@pytest.fixture
def network(model: Transformer) -> ArrayNetwork:
    """Return the same model over numpy arrays."""
    return network_of(model)


@pytest.fixture
def sentences() -> list[list[int]]:
    """Return twelve sentences of 2 to 18 tokens, eos last."""
    generator = torch.Generator().manual_seed(6)
    lengths = [1, 17, *torch.randint(2, 17, (10,), generator=generator).tolist()]
    return [[*torch.randint(4, 47, (length,), generator=generator).tolist(), 2] for length in lengths]
