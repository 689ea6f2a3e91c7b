"""The Transformer's blocks as ONNX nodes, a twin of xuanzang.model.network.arrays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xuanzang.export import tensors
from xuanzang.export.builder import GraphBuilder
from xuanzang.export.graphs.precision import Floats, Linear, Precision
from xuanzang.export.graphs.source import write_key_values
from xuanzang.export.operators.attention import cross_attention, paged_attention
from xuanzang.export.operators.source_attention import Padding, attend
from xuanzang.export.weight_store import RowBlocks, WeightStore, row_blocks
from xuanzang.model.network.arrays import NORM_EPSILON, ArrayNetwork


class Blocks:
    """Adds the blocks of one model to one graph; inputs and outputs of the methods are names of values."""

    def __init__(
        self, network: ArrayNetwork, precision: Precision, name: str, weights: WeightStore | None = None
    ) -> None:
        """Begin a graph.

        Args:
            network: Trained weights.
            precision: Number format of the weights.
            name: "encoder" or "decoder".
            weights: Store for the weights; None to keep them in the graph.
        """
        self.graph = GraphBuilder(name, weights)
        self._network, self._config = network, network.config
        self._rows = tensors.STATE_AXES[name]
        self._precision, self._floats = precision, tensors.floats_of(precision.name)

    def encoder_layer(self, x: str, layer: str, places: str, padding: Padding) -> str:
        """Add an encoder layer of that name; places are those of the tokens, [1, token, 2]."""
        x = self._residual(
            x, f"{layer}.self_attention", lambda h, name: self._encoder_attention(h, name, places, padding)
        )
        return self._residual(x, f"{layer}.feed_forward", self._feed_forward)

    def decoder_layer(self, x: str, layer: str, index: int) -> str:
        """Add a decoder layer of that name, which also gives the layer's present_key_values."""
        x = self._residual(x, f"{layer}.self_attention", lambda h, name: self._self_attention(h, name, index))
        x = self._residual(x, f"{layer}.cross_attention", lambda h, name: self._cross_attention(h, name, index))
        return self._residual(x, f"{layer}.feed_forward", self._feed_forward)

    def _residual(self, x: str, name: str, sublayer: Callable[[str, str], str]) -> str:
        """Add a sublayer, the sum with its input, and a normalisation before or after both."""
        norm = f"{name}_residual.norm"
        if self._config.norm == "pre":
            return self._known_state(self.graph.op("Add", x, sublayer(self.norm(x, norm), name)))
        return self.norm(self._known_state(self.graph.op("Add", x, sublayer(x, name))), norm)

    def norm(self, x: str, name: str) -> str:
        """Add a layer normalisation, or nothing where the model has none of that name."""
        if not self._network.has_norm(name):
            return x
        scale, shift = (
            self.graph.constant(f"{name}.{part}", self._network.array(f"{name}.{part}"), self._floats)
            for part in ("weight", "bias")
        )
        return self.graph.op("LayerNormalization", x, scale, shift, epsilon=NORM_EPSILON, axis=-1)

    def _feed_forward(self, x: str, name: str) -> str:
        """Add two linear layers with the activation between them."""
        inner, outer = self.linear(x, f"{name}.inner"), f"{name}.outer"
        if self._config.activation == "swish":
            return self.linear(self.graph.op("Mul", inner, self.graph.op("Sigmoid", inner)), outer)
        return self.linear(self.graph.op("Gelu" if self._config.activation == "gelu" else "Relu", inner), outer)

    def projection(self) -> Linear:
        """Return the projection onto the vocabulary."""
        name = "output_projection"
        return Linear(name, self._network.array(f"{name}.weight").T, self._network.bias(name))

    def linear(self, x: str, *names: str) -> str:
        """Apply layers that share their input, all with a bias, as one product."""
        weight, bias = (
            np.concatenate([self._network.array(f"{name}.{part}") for name in names]) for part in ("weight", "bias")
        )
        return self._precision.linear(self.graph, x, Linear(names[0], np.ascontiguousarray(weight.T), bias))

    def embed(self, ids: str, positions: str, side: str) -> str:
        """Add embedding and positional encoding of ids [batch, beam] or [1, token] of "source" or "target"."""
        weight, scale = self._network.array(f"{side}_embedding.weight"), np.float32(self._config.embedding_scale)
        table = RowBlocks(weight.shape, lambda start, stop: weight[start:stop] * scale)
        rows = self._precision.embedding(self.graph, ids, "embedding", table)
        table = row_blocks(self._network.array(f"{side}_positions.table"))
        encoded = Floats(self._floats).embedding(self.graph, positions, "positional", table)
        return self.norm(self._known_state(self.graph.op("Add", rows, encoded)), f"{side}_embedding_norm")

    def cross_key_value(self, memory: str, slots: str, name: str, index: int) -> None:
        """Write the keys and values of a decoder layer's attention to the memory [1, token, model] into their slots."""
        both = self.linear(memory, f"{name}.key_projection", f"{name}.value_projection")
        write_key_values(self.graph, both, slots, self._config.num_heads, self._config.d_head, index)

    def _encoder_attention(self, h: str, name: str, places: str, padding: Padding) -> str:
        mixed = attend(self.graph, self._projected(h, name), places, padding, self._config.num_heads)
        return self.linear(mixed, f"{name}.output_projection")

    def _self_attention(self, h: str, name: str, index: int) -> str:
        """Write the keys and values of the step into their slots, then attend to the visible slots."""
        names = [f"key_values.{index}.{part}" for part in ("key", "value")]
        mixed, present = f"self_attention.{index}", [f"present_{part}" for part in names]
        inputs = [*(f"past_{part}" for part in names), "slot_indices", "page_table", "page_owners", "visible"]
        operator = paged_attention(self._config.num_heads, self._config.d_head, self._floats)
        self.graph.call(operator, self._projected(h, name), *inputs, outputs=[mixed, *present])
        return self.linear(self._known_state(mixed), f"{name}.output_projection")

    def _cross_attention(self, h: str, name: str, index: int) -> str:
        """Attend to the source; the attention of the last layer is an output of the graph."""
        queries, mixed = self.linear(h, f"{name}.query_projection"), f"cross_attention.{index}"
        names = [f"cross_key_values.{index}.{part}" for part in ("key", "value")]
        inputs = [*names, "source_page_table", "source_page_owners", "source_lengths"]
        averaged = "attention" if index == self._config.num_decoder_layers - 1 else ""
        operator = cross_attention(self._config.num_heads, self._config.d_head, self._floats)
        self.graph.call(operator, queries, *inputs, outputs=[mixed, averaged])
        return self.linear(self._known_state(mixed), f"{name}.output_projection")

    def _known_state(self, x: str) -> str:
        return self.graph.known(x, *self._rows, self._config.d_model, dtype=self._floats)

    def _projected(self, h: str, name: str) -> str:
        """Return queries, keys and values side by side."""
        return self.linear(h, *(f"{name}.{part}_projection" for part in ("query", "key", "value")))
