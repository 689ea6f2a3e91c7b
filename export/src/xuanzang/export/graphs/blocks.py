"""The Transformer's blocks as ONNX nodes, a twin of xuanzang.model.network.layers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from torch import Tensor, nn

from xuanzang.export import tensors
from xuanzang.export.builder import GraphBuilder
from xuanzang.export.graphs.precision import FloatArray, Floats, Linear, Precision
from xuanzang.export.graphs.source import write_key_values
from xuanzang.export.operators.attention import cross_attention, paged_attention
from xuanzang.export.operators.source_attention import Padding, attend
from xuanzang.export.weight_store import RowBlocks, WeightStore, row_blocks
from xuanzang.model.network.attention import MultiHeadAttention
from xuanzang.model.network.layers import DecoderLayer, EncoderLayer, FeedForward, Residual
from xuanzang.model.network.positions import PositionalEncoding
from xuanzang.model.network.transformer import Transformer


class Blocks:
    """Adds the blocks of one model to one graph; inputs and outputs of the methods are names of values."""

    def __init__(self, model: Transformer, precision: Precision, name: str, weights: WeightStore | None = None) -> None:
        """Begin a graph.

        Args:
            model: Trained weights.
            precision: Number format of the weights.
            name: "encoder" or "decoder".
            weights: Store for the weights; None to keep them in the graph.
        """
        self.graph = GraphBuilder(name, weights)
        self._rows = tensors.STATE_AXES[name]
        self._precision, self._floats = precision, tensors.floats_of(precision.name)
        self._num_heads, self._d_head, self._d_model = model.config.num_heads, model.config.d_head, model.config.d_model
        self._num_decoder_layers = model.config.num_decoder_layers
        self._embedding_scale = np.float32(model.config.embedding_scale)
        self._names = {module: module_name for module_name, module in model.named_modules()}

    def encoder_layer(self, x: str, layer: EncoderLayer, places: str, padding: Padding) -> str:
        """Add an encoder layer; places are those of the tokens, [1, token, 2]."""
        x = self.residual(
            x, layer.self_attention_residual, lambda h: self._encoder_attention(h, layer, places, padding)
        )
        return self.residual(x, layer.feed_forward_residual, lambda h: self.feed_forward(h, layer.feed_forward))

    def decoder_layer(self, x: str, layer: DecoderLayer, index: int) -> str:
        """Add a decoder layer, which also gives the layer's present_key_values."""
        x = self.residual(x, layer.self_attention_residual, lambda h: self._self_attention(h, layer, index))
        x = self.residual(x, layer.cross_attention_residual, lambda h: self._cross_attention(h, layer, index))
        return self.residual(x, layer.feed_forward_residual, lambda h: self.feed_forward(h, layer.feed_forward))

    def residual(self, x: str, residual: Residual, sublayer: Callable[[str], str]) -> str:
        """Add a sublayer, the sum with its input, and a normalisation before or after both."""
        if residual.pre_norm:
            return self._known_state(self.graph.op("Add", x, sublayer(self.norm(x, residual.norm))))
        return self.norm(self._known_state(self.graph.op("Add", x, sublayer(x))), residual.norm)

    def norm(self, x: str, norm: nn.Module) -> str:
        """Add a layer normalisation, or nothing where the model has none."""
        if not isinstance(norm, nn.LayerNorm):
            return x
        name = self._names[norm]
        scale = self.graph.constant(f"{name}.weight", _array(norm.weight), self._floats)
        shift = self.graph.constant(f"{name}.bias", _array(norm.bias), self._floats)
        return self.graph.op("LayerNormalization", x, scale, shift, epsilon=norm.eps, axis=-1)

    def feed_forward(self, x: str, network: FeedForward) -> str:
        """Add two linear layers with the activation between them."""
        inner = self.linear(x, network.inner)
        if network.activation == "swish":
            return self.linear(self.graph.op("Mul", inner, self.graph.op("Sigmoid", inner)), network.outer)
        return self.linear(self.graph.op("Gelu" if network.activation == "gelu" else "Relu", inner), network.outer)

    def projection(self, projection: nn.Linear) -> Linear:
        """Return the projection onto the vocabulary."""
        bias = None if projection.bias is None else _array(projection.bias)
        return Linear(self._names[projection], _array(projection.weight).T, bias)

    def linear(self, x: str, *layers: nn.Linear) -> str:
        """Apply layers that share their input as one product."""
        weight = np.concatenate([_array(layer.weight) for layer in layers]).T
        bias = None if layers[0].bias is None else np.concatenate([_array(layer.bias) for layer in layers])
        return self._precision.linear(self.graph, x, Linear(self._names[layers[0]], np.ascontiguousarray(weight), bias))

    def embed(self, ids: str, positions: str, embedding: nn.Embedding, encoding: PositionalEncoding) -> str:
        """Add embedding and positional encoding of ids [batch, beam] or [1, token]."""
        weight, scale = _array(embedding.weight), self._embedding_scale
        table = RowBlocks(weight.shape, lambda start, stop: weight[start:stop] * scale)
        rows = self._precision.embedding(self.graph, ids, "embedding", table)
        table = row_blocks(_array(encoding.table))
        encoded = Floats(self._floats).embedding(self.graph, positions, "positional", table)
        return self._known_state(self.graph.op("Add", rows, encoded))

    def cross_key_value(self, memory: str, slots: str, attention: MultiHeadAttention, index: int) -> None:
        """Write the keys and values of a decoder layer for the memory [1, token, model] into their slots."""
        both = self.linear(memory, attention.key_projection, attention.value_projection)
        write_key_values(self.graph, both, slots, self._num_heads, self._d_head, index)

    def _encoder_attention(self, h: str, layer: EncoderLayer, places: str, padding: Padding) -> str:
        attention = layer.self_attention
        mixed = attend(self.graph, self._projected(h, attention), places, padding, self._num_heads)
        return self.linear(mixed, attention.output_projection)

    def _self_attention(self, h: str, layer: DecoderLayer, index: int) -> str:
        """Write the keys and values of the step into their slots, then attend to the visible slots."""
        attention = layer.self_attention
        names = [f"key_values.{index}.{part}" for part in ("key", "value")]
        mixed, present = f"self_attention.{index}", [f"present_{name}" for name in names]
        inputs = [*(f"past_{name}" for name in names), "slot_indices", "page_table", "page_owners", "visible"]
        operator = paged_attention(self._num_heads, self._d_head, self._floats)
        self.graph.call(operator, self._projected(h, attention), *inputs, outputs=[mixed, *present])
        return self.linear(self._known_state(mixed), attention.output_projection)

    def _cross_attention(self, h: str, layer: DecoderLayer, index: int) -> str:
        """Attend to the source; the attention of the last layer is an output of the graph."""
        attention = layer.cross_attention
        queries, mixed = self.linear(h, attention.query_projection), f"cross_attention.{index}"
        names = [f"cross_key_values.{index}.{part}" for part in ("key", "value")]
        inputs = [*names, "source_page_table", "source_page_owners", "source_lengths"]
        averaged = "attention" if index == self._num_decoder_layers - 1 else ""
        operator = cross_attention(self._num_heads, self._d_head, self._floats)
        self.graph.call(operator, queries, *inputs, outputs=[mixed, averaged])
        return self.linear(self._known_state(mixed), attention.output_projection)

    def _known_state(self, x: str) -> str:
        return self.graph.known(x, *self._rows, self._d_model, dtype=self._floats)

    def _projected(self, h: str, attention: MultiHeadAttention) -> str:
        """Return queries, keys and values side by side."""
        return self.linear(h, attention.query_projection, attention.key_projection, attention.value_projection)


def _array(tensor: Tensor) -> FloatArray:
    array: FloatArray = tensor.detach().float().cpu().numpy()
    return array
