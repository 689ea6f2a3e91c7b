"""The shape of the models that tests import."""

from __future__ import annotations

from typing import Any

TINY: dict[str, Any] = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": 128,
    "scale_embedding": True,
    "forced_eos_token_id": None,
}
"""Fields of a configuration of transformers."""
