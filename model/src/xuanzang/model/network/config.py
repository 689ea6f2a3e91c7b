"""Configuration of a Transformer: sizes, variants and named presets."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal, get_args

Norm = Literal["pre", "post"]
Positions = Literal["sinusoidal", "sinusoidal_halves", "sinusoidal_fairseq", "learned"]
Activation = Literal["relu", "swish", "gelu"]


_SIZES = (
    "source_vocab_size",
    "target_vocab_size",
    "d_model",
    "num_heads",
    "d_ff",
    "num_encoder_layers",
    "num_decoder_layers",
    "max_positions",
)


class ConfigError(ValueError):
    """An impossible configuration; the message lists every fault."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TransformerConfig:
    """Sizes and choices of a Transformer, named as in "Attention Is All You Need" (arXiv 1706.03762).

    Raises:
        ConfigError: Some fields do not fit together; all faults are listed.
    """

    source_vocab_size: int
    """Source pieces."""
    target_vocab_size: int
    """Target pieces."""
    d_model: int = 512
    """Width of embeddings and of every block's output."""
    num_heads: int = 8
    """Attention heads; must divide d_model."""
    d_ff: int = 2048
    """Inner width of the feed-forward networks."""
    num_encoder_layers: int = 6
    """Encoder blocks. Cheap at decoding time: they run once per sentence."""
    num_decoder_layers: int = 6
    """Decoder blocks. They run once per target token, so a shallow decoder is fast."""
    dropout: float = 0.1
    """Share of activations dropped after embeddings and sub-layers while training, section 5.4."""
    norm: Norm = "pre"
    """"post" is the paper's LayerNorm(x + sublayer(x)); "pre" normalises before the sub-layer, which trains easily."""
    positions: Positions = "sinusoidal"
    """Sine and cosine of section 3.5, taking turns or in two halves; fairseq's variant of the halves, whose positions
    count from pad_id + 1; or a learned table."""
    max_positions: int = 512
    """Maximum tokens on either side, bos and eos counted."""
    activation: Activation = "relu"
    """Between the two layers of the feed-forward networks; "swish" is x · sigmoid(x), "gelu" x · Φ(x)."""
    scale_embeddings: bool = True
    """True if embeddings are multiplied by √d_model, section 3.4."""
    embedding_norm: bool = False
    """True if the sum of embedding and position is normalised before the first block."""
    share_embeddings: bool = True
    """True if source and target use one embedding table; needs equal vocabularies, section 3.4."""
    tie_output: bool = True
    """True if the output projection is the target embedding, section 3.4."""
    output_bias: bool = False
    """True if each target piece has a bias on its logit."""
    unk_id: int = 0
    """Id of pieces outside the vocabulary."""
    bos_id: int = 1
    """The decoder's first input."""
    eos_id: int = 2
    """Ends every source and target sentence."""
    pad_id: int = 3
    """Fills sentences up to the longest of a batch."""
    banned_ids: tuple[int, ...] = ()
    """Target ids that are never generated; their probability goes to no other."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "banned_ids", tuple(self.banned_ids))  # JSON has only lists
        if faults := self._faults():
            raise ConfigError("; ".join(faults))

    @property
    def d_head(self) -> int:
        """Width of one attention head, d_k = d_v in the paper."""
        return self.d_model // self.num_heads

    @property
    def embedding_scale(self) -> float:
        """Factor on every embedding, which keeps positions from drowning them."""
        return math.sqrt(self.d_model) if self.scale_embeddings else 1.0

    def _faults(self) -> list[str]:
        faults = [f"{name} is {getattr(self, name)}, must be at least 1" for name in _SIZES if getattr(self, name) < 1]
        if self.num_heads >= 1 and self.d_model % self.num_heads:
            faults.append(f"d_model is {self.d_model}, must be a multiple of num_heads = {self.num_heads}")
        if self.d_model % 2:
            faults.append(f"d_model is {self.d_model}, must be even: sine and cosine dimensions come in pairs")
        if self.positions == "sinusoidal_fairseq" and self.d_model < 4:
            faults.append(f"d_model is {self.d_model}, must be at least 4 for sinusoidal_fairseq positions")
        if not 0.0 <= self.dropout < 1.0:
            faults.append(f"dropout is {self.dropout}, must be in [0, 1)")
        if self.share_embeddings and self.source_vocab_size != self.target_vocab_size:
            faults.append(
                f"share_embeddings needs equal vocabularies, not {self.source_vocab_size} and {self.target_vocab_size}"
            )
        faults += [
            f"{name} is {getattr(self, name)!r}, must be one of {', '.join(get_args(choices))}"
            for name, choices in (("norm", Norm), ("positions", Positions), ("activation", Activation))
            if getattr(self, name) not in get_args(choices)
        ]
        faults += [
            f"banned_ids has {banned}, must be below target_vocab_size = {self.target_vocab_size}"
            for banned in self.banned_ids
            if not 0 <= banned < self.target_vocab_size
        ]
        return faults


PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {"d_model": 64, "num_heads": 4, "d_ff": 128, "num_encoder_layers": 2, "num_decoder_layers": 2},
    "small": {"d_model": 256, "num_heads": 4, "d_ff": 1024, "num_encoder_layers": 6, "num_decoder_layers": 3},
    "base": {"d_model": 512, "num_heads": 8, "d_ff": 2048, "num_encoder_layers": 6, "num_decoder_layers": 6},
    "big": {
        "d_model": 1024,
        "num_heads": 16,
        "d_ff": 4096,
        "num_encoder_layers": 6,
        "num_decoder_layers": 6,
        "dropout": 0.3,
    },
}
"""Shapes with a name: "base" and "big" of the paper's table 3, "small" trains on a CPU, "tiny" is for tests."""
