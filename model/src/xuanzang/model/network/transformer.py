"""The Transformer: encoder, decoder, and one decoding step with a cache."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from xuanzang.model.network.cache import DecoderCache, LayerCache
from xuanzang.model.network.config import TransformerConfig
from xuanzang.model.network.layers import DecoderLayer, EncoderLayer
from xuanzang.model.network.positions import fixed_positions


class PositionalEncoding(nn.Module):
    """A row of a table, fixed or learned, for each position."""

    table: Tensor

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        sizes = config.max_positions, config.d_model
        if config.positions == "learned":
            self.table = nn.Parameter(torch.randn(sizes) * config.d_model**-0.5)
        else:
            self.register_buffer("table", torch.tensor(fixed_positions(config)), persistent=False)

    def forward(self, start: int, length: int) -> Tensor:
        """Return the encodings of `length` positions from `start`.

        Args:
            start: First position, 0 or more.

        Returns:
            [length, model].

        Raises:
            ValueError: The last position lies beyond the table.
        """
        if start + length > self.table.size(0):
            raise ValueError(f"position {start + length - 1} is beyond max_positions = {self.table.size(0)}")
        return self.table[start : start + length]


class Transformer(nn.Module):
    """An encoder and a decoder over token ids.

    `encode`, `decode` (all target positions at once, for training) and `step` (one position with a cache, for search)
    are three views of the same weights. They return logits; losses and search are elsewhere.

    Source: "Attention Is All You Need", arXiv 1706.03762, figure 1.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.source_embedding = nn.Embedding(config.source_vocab_size, config.d_model)
        self.target_embedding = (
            self.source_embedding if config.share_embeddings else nn.Embedding(config.target_vocab_size, config.d_model)
        )
        self.source_embedding_norm = nn.LayerNorm(config.d_model) if config.embedding_norm else nn.Identity()
        self.target_embedding_norm = nn.LayerNorm(config.d_model) if config.embedding_norm else nn.Identity()
        self.source_positions = PositionalEncoding(config)
        self.target_positions = PositionalEncoding(config)
        self.encoder_layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.num_encoder_layers))
        self.decoder_layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.num_decoder_layers))
        # A pre-norm stack ends in a bare residual sum, which needs one last norm; a post-norm stack is normed already.
        self.encoder_norm = nn.LayerNorm(config.d_model) if config.norm == "pre" else nn.Identity()
        self.decoder_norm = nn.LayerNorm(config.d_model) if config.norm == "pre" else nn.Identity()
        self.output_projection = nn.Linear(config.d_model, config.target_vocab_size, bias=config.output_bias)
        if config.tie_output:
            self.output_projection.weight = self.target_embedding.weight
        self.dropout = nn.Dropout(config.dropout)
        self._initialise()

    def forward(self, source_ids: Tensor, source_mask: Tensor, target_ids: Tensor) -> Tensor:
        """Return logits for every target position (teacher forcing).

        Args:
            source_ids: [batch, source], int64.
            source_mask: [batch, source], bool; True = real token.
            target_ids: Decoder input, bos first, [batch, target], int64.

        Returns:
            [batch, target, vocab]; position i predicts token i + 1.
        """
        return self.decode(target_ids, self.encode(source_ids, source_mask), source_mask)

    def encode(self, source_ids: Tensor, source_mask: Tensor) -> Tensor:
        """Return the encoder memory.

        Args:
            source_ids: [batch, source], int64.
            source_mask: [batch, source], bool; True = real token.

        Returns:
            [batch, source, model].
        """
        x = self._embed_source(source_ids)
        mask = source_mask[:, None, None, :]
        for layer in self.encoder_layers:
            x = layer(x, mask)
        return self.encoder_norm(x)

    def decode(self, target_ids: Tensor, memory: Tensor, source_mask: Tensor) -> Tensor:
        """Return logits for every target position, given the encoder memory.

        Args:
            target_ids: Decoder input, bos first, [batch, target], int64. Padding may follow the last real token: the
                causal mask keeps it from being seen.
            memory: [batch, source, model].
            source_mask: [batch, source], bool; True = real token.

        Returns:
            [batch, target, vocab].
        """
        return self.output_projection(self.decoder_states(target_ids, memory, source_mask))

    def decoder_states(self, target_ids: Tensor, memory: Tensor, source_mask: Tensor) -> Tensor:
        """Return what `decode` projects onto the vocabulary, which costs as much as all blocks if that is large.

        Args:
            target_ids: As for `decode`.
            memory: As for `decode`.
            source_mask: As for `decode`.

        Returns:
            [batch, target, model].
        """
        x = self._embed_target(target_ids)
        length = target_ids.size(1)
        causal = torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
        for layer in self.decoder_layers:
            x = layer(x, memory, causal, source_mask[:, None, None, :])
        return self.decoder_norm(x)

    def start(self, memory: Tensor, source_mask: Tensor) -> DecoderCache:
        """Return the cache of a decoder that has seen no token yet.

        Args:
            memory: [row, source, model].
            source_mask: [row, source], bool; True = real token.
        """
        empty = memory.new_zeros(memory.size(0), self.config.num_heads, 0, self.config.d_head)
        layers = (
            LayerCache(empty, empty, *layer.cross_attention.project_key_value(memory, memory))
            for layer in self._decoder
        )
        return DecoderCache(tuple(layers), source_mask)

    def step(self, token_ids: Tensor, cache: DecoderCache) -> tuple[Tensor, DecoderCache]:
        """Decode one more position.

        Args:
            token_ids: Last token of each row, bos at first, [row], int64.
            cache: Result of `start` or of the previous step.

        Returns:
            Logits [row, vocab] for the next token, and the cache with this position.
        """
        x = self._embed_target(token_ids[:, None], start=cache.length)
        mask = cache.source_mask[:, None, None, :]
        layers = []
        for layer, layer_cache in zip(self._decoder, cache.layers, strict=True):
            x, grown = layer.step(x, layer_cache, mask)
            layers.append(grown)
        return self.output_projection(self.decoder_norm(x))[:, 0], DecoderCache(tuple(layers), cache.source_mask)

    @property
    def _decoder(self) -> list[DecoderLayer]:
        return [cast("DecoderLayer", layer) for layer in self.decoder_layers]

    def _embed_source(self, ids: Tensor) -> Tensor:
        scaled = F.embedding(ids, self.source_embedding.weight) * self.config.embedding_scale
        return self.dropout(self.source_embedding_norm(scaled + self.source_positions(0, ids.size(1))))

    def _embed_target(self, ids: Tensor, start: int = 0) -> Tensor:
        scaled = F.embedding(ids, self.target_embedding.weight) * self.config.embedding_scale
        return self.dropout(self.target_embedding_norm(scaled + self.target_positions(start, ids.size(1))))

    def _initialise(self) -> None:
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
        if self.output_projection.bias is not None:
            nn.init.zeros_(self.output_projection.bias)
        for embedding in (self.source_embedding, self.target_embedding):
            nn.init.normal_(embedding.weight, std=self.config.d_model**-0.5)
