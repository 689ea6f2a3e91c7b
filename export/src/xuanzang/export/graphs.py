"""The encoder and the decoder step as ONNX graphs.

    source_ids ─ encoder ─ cross_key_values, in pages ─────┐
                                                           ├─ decoder ─ candidates, attention, present_key_values ─┐
    token_ids, positions, scores, visible, past_key_values ┘                                                      │
                                                               past_key_values of the next step ◄─────────────────┘

In the decoder the hypotheses of a sentence are query positions over one shared set of slots, each holding key and value
of one token: `visible` says which slots each may see. A change of beams changes `visible` and copies no cache. Slots
lie in pages (Kwon et al. 2023, arXiv:2309.06180): a sentence has as many as it needs, whatever its neighbours have,
and attention looks at no others. The encoder writes keys and values of the source into pages, too, so that nothing has
to move when a sentence joins others or leaves them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
import onnx
from torch import Tensor, nn

from xuanzang.export import tensors
from xuanzang.export.attention import cross_attention, paged_attention
from xuanzang.export.builder import MICROSOFT, GraphBuilder
from xuanzang.export.candidates import GROUP, NEVER, best_continuations, edit_logits
from xuanzang.export.weights import FloatArray, Floats, Linear, Precision
from xuanzang.model.attention import MultiHeadAttention
from xuanzang.model.data.shortlist import Ints
from xuanzang.model.layers import DecoderLayer, EncoderLayer, FeedForward, Residual
from xuanzang.model.positions import PositionalEncoding
from xuanzang.model.transformer import Transformer


def encoder_graph(model: Transformer, precision: Precision) -> onnx.ModelProto:
    """Build the graph from padded sentences to the keys and values that the decoder attends to.

    Args:
        model: Trained weights.
        precision: How to store them.
    """
    blocks = _Blocks(model, precision, "encoder")
    graph = blocks.graph
    length = graph.op("Shape", "source_ids", start=1, end=2)
    positions = graph.op("Range", graph.scalar(0), graph.op("Squeeze", length), graph.scalar(1))  # [source]
    real = graph.op("Less", positions, graph.op("Unsqueeze", "source_lengths", graph.ints(1)))
    mask = graph.op("Cast", real, to=onnx.TensorProto.INT32)
    x = blocks.embed("source_ids", positions, model.source_embedding, model.source_positions)
    for layer in model.encoder_layers:
        x = blocks.encoder_layer(x, cast(EncoderLayer, layer), mask)
    memory, slots = blocks.norm(x, model.encoder_norm), blocks.source_slots(positions)
    for index, layer in enumerate(model.decoder_layers):
        blocks.cross_key_value(memory, slots, cast(DecoderLayer, layer).cross_attention, index)
    floats = tensors.floats_of(precision.name)
    return graph.model(tensors.encoder_inputs(model.config, floats), tensors.encoder_outputs(model.config, floats))


def decoder_graph(model: Transformer, precision: Precision) -> onnx.ModelProto:
    """Build the graph of one decoder step for every hypothesis of every sentence.

    Args:
        model: Trained weights.
        precision: How to store them.
    """
    blocks = _Blocks(model, precision, "decoder")
    logits = blocks.logits(_decoder_output(blocks, model), model.output_projection)
    banned = blocks.graph.constant("banned_ids", model.config.banned_ids, np.int64)
    _choose(blocks.graph, edit_logits(blocks.graph, logits), banned, ids="candidate_ids")
    floats = tensors.floats_of(precision.name)
    return blocks.graph.model(
        tensors.decoder_inputs(model.config, floats), tensors.decoder_outputs(model.config, floats)
    )


def shortlist_decoder_graph(model: Transformer, precision: Precision, always: Ints) -> onnx.ModelProto:
    """Build the graph of a decoder step in which every sentence chooses among some pieces only.

    Logits of the pieces that every sentence has are one product; those of its others are computed for each sentence by
    itself. Nothing depends on its neighbours, then, not even rounding.

    Args:
        model: Trained weights.
        precision: How to store them.
        always: Pieces that every sentence has, as `always_pieces` gives them.
    """
    blocks = _Blocks(model, precision, "decoder")
    graph = blocks.graph
    logits = blocks.shortlisted_logits(_decoder_output(blocks, model), model.output_projection, always)
    _choose(graph, edit_logits(graph, logits), graph.constant("banned_ids", [], np.int64), ids="chosen")
    rows = graph.op("Concat", graph.op("Shape", "choices", start=0, end=1), graph.ints(len(always)), axis=0)
    common_ids = graph.op("Expand", graph.constant("always_ids", always, np.int64), rows)
    ids = graph.op("Concat", common_ids, "choices", axis=1)
    graph.op("GatherElements", ids, "chosen", axis=1, output="candidate_ids")
    floats = tensors.floats_of(precision.name)
    return graph.model(
        tensors.shortlist_decoder_inputs(model.config, floats), tensors.decoder_outputs(model.config, floats)
    )


def _choose(graph: GraphBuilder, logits: str, banned_ids: str, *, ids: str) -> None:
    """Add the choice of the best continuations; their ids get a name of their own."""
    outputs = ["candidate_scores", ids, "candidate_parents"]
    graph.call(best_continuations(), logits, "scores", "candidate_count", banned_ids, outputs=outputs)


def _decoder_output(blocks: _Blocks, model: Transformer) -> str:
    """Add the decoder but for the projection onto the vocabulary; return the name of [batch, beam, model]."""
    x = blocks.embed("token_ids", "positions", model.target_embedding, model.target_positions)
    for index, layer in enumerate(model.decoder_layers):
        x = blocks.decoder_layer(x, cast(DecoderLayer, layer), index)
    return blocks.norm(x, model.decoder_norm)


class _Blocks:
    """The Transformer's parts as nodes of one graph; a twin of xuanzang.model.layers."""

    def __init__(self, model: Transformer, precision: Precision, name: str) -> None:
        self.graph = GraphBuilder(name)
        self._length = "source" if name == "encoder" else "beam"  # Second dimension of a state.
        self._precision, self._floats = precision, tensors.floats_of(precision.name)
        self._num_heads, self._d_head, self._d_model = model.config.num_heads, model.config.d_head, model.config.d_model
        self._num_decoder_layers = model.config.num_decoder_layers
        self._embedding_scale = np.float32(model.config.embedding_scale)
        self._names = {module: module_name for module_name, module in model.named_modules()}

    def encoder_layer(self, x: str, layer: EncoderLayer, mask: str) -> str:
        x = self.residual(x, layer.self_attention_residual, lambda h: self._encoder_attention(h, layer, mask))
        return self.residual(x, layer.feed_forward_residual, lambda h: self.feed_forward(h, layer.feed_forward))

    def decoder_layer(self, x: str, layer: DecoderLayer, index: int) -> str:
        x = self.residual(x, layer.self_attention_residual, lambda h: self._history_attention(h, layer, index))
        x = self.residual(x, layer.cross_attention_residual, lambda h: self._cross_attention(h, layer, index))
        return self.residual(x, layer.feed_forward_residual, lambda h: self.feed_forward(h, layer.feed_forward))

    def residual(self, x: str, residual: Residual, sublayer: Callable[[str], str]) -> str:
        if residual.pre_norm:
            return self._known_state(self.graph.op("Add", x, sublayer(self.norm(x, residual.norm))))
        return self.norm(self._known_state(self.graph.op("Add", x, sublayer(x))), residual.norm)

    def norm(self, x: str, norm: nn.Module) -> str:
        if not isinstance(norm, nn.LayerNorm):
            return x
        name = self._names[norm]
        scale = self.graph.constant(f"{name}.weight", _array(norm.weight), self._floats)
        shift = self.graph.constant(f"{name}.bias", _array(norm.bias), self._floats)
        return self.graph.op("LayerNormalization", x, scale, shift, epsilon=norm.eps, axis=-1)

    def feed_forward(self, x: str, network: FeedForward) -> str:
        inner = self.linear(x, network.inner)
        if network.activation == "swish":
            return self.linear(self.graph.op("Mul", inner, self.graph.op("Sigmoid", inner)), network.outer)
        return self.linear(self.graph.op("Relu", inner), network.outer)

    def logits(self, x: str, projection: nn.Linear) -> str:
        """Project onto the vocabulary, filled up to whole groups of `best_continuations` with pieces never chosen."""
        padding = -projection.out_features % GROUP
        logits = self._precision.linear(self.graph, x, self._projection(projection, padding))
        self.graph.known(logits, "batch", "beam", projection.out_features + padding, dtype=self._floats)
        return self._in_32_bits(logits)

    def shortlisted_logits(self, x: str, projection: nn.Linear, always: Ints) -> str:
        """Project onto the pieces that every sentence has, and onto those that it has besides."""
        everything = self._projection(projection, 1)  # The first id after the vocabulary is of a piece never chosen.
        common = everything._replace(weight=everything.weight[:, always], bias=everything.biases[always])
        logits = self._in_32_bits(self._precision.linear(self.graph, x, common))
        logits = self.graph.op("Concat", logits, self._precision.chosen(self.graph, x, everything, "choices"), axis=-1)
        return self.graph.known(logits, "batch", "beam", "piece")

    def _in_32_bits(self, logits: str) -> str:
        return logits if self._floats == "float32" else self.graph.cast(logits, "float32")

    def _projection(self, projection: nn.Linear, padding: int) -> Linear:
        weight = _array(projection.weight).T
        bias = np.zeros(weight.shape[1], np.float32) if projection.bias is None else _array(projection.bias)
        return Linear(
            self._names[projection],
            np.ascontiguousarray(np.pad(weight, ((0, 0), (0, padding)))),
            np.pad(bias, (0, padding), constant_values=NEVER),
        )

    def linear(self, x: str, *layers: nn.Linear) -> str:
        """Apply layers that share their input as one product."""
        weight = np.concatenate([_array(layer.weight) for layer in layers]).T
        bias = None if layers[0].bias is None else np.concatenate([_array(layer.bias) for layer in layers])
        return self._precision.linear(self.graph, x, Linear(self._names[layers[0]], np.ascontiguousarray(weight), bias))

    def embed(self, ids: str, positions: str, embedding: nn.Embedding, encoding: PositionalEncoding) -> str:
        table = _array(embedding.weight) * self._embedding_scale
        rows = self._precision.embedding(self.graph, ids, "embedding", table)
        places = Floats(self._floats).embedding(self.graph, positions, "positional", _array(encoding.table))
        return self._known_state(self.graph.op("Add", rows, places))

    def source_slots(self, positions: str) -> str:
        """Return where the keys and values of all positions are written, [batch, source, heads, 3]."""
        graph = self.graph
        page_slots = graph.scalar(tensors.PAGE_SLOTS)
        pages = graph.op("Gather", "source_page_table", graph.op("Div", positions, page_slots), axis=1)
        heads = graph.constant("heads", np.arange(self._num_heads)[:, None], np.int64)
        slots = graph.op("Unsqueeze", graph.op("Mod", positions, page_slots), graph.ints(1, 2))
        both = graph.op("Shape", "source_ids")
        shape = graph.op("Concat", both, graph.ints(self._num_heads, 1), axis=0)
        parts = [graph.op("Unsqueeze", pages, graph.ints(2, 3)), heads, slots]
        return graph.op("Concat", *(graph.op("Expand", part, shape) for part in parts), axis=-1)

    def cross_key_value(self, memory: str, slots: str, attention: MultiHeadAttention, index: int) -> None:
        """Write the keys and values of the memory [batch, source, model] into their slots."""
        both = self.linear(memory, attention.key_projection, attention.value_projection)
        heads = self.graph.op("Reshape", both, self.graph.ints(0, 0, 2 * self._num_heads, self._d_head))
        parts = self.graph.multi_op("Split", heads, outputs=2, axis=2, num_outputs=2)
        for part, states in zip(("key", "value"), parts, strict=True):
            name = f"cross_key_values.{index}.{part}"
            self.graph.op("ScatterND", f"past_{name}", slots, states, output=f"present_{name}")

    def _encoder_attention(self, h: str, layer: EncoderLayer, mask: str) -> str:
        attention = layer.self_attention
        together = self._projected(h, attention)
        parts = self.graph.multi_op("Split", together, outputs=3, axis=-1, num_outputs=3)
        heads = self.graph.op("MultiHeadAttention", *parts, "", mask, domain=MICROSOFT, num_heads=self._num_heads)
        return self.linear(heads, attention.output_projection)

    def _history_attention(self, h: str, layer: DecoderLayer, index: int) -> str:
        """Write the step's keys and values into their slots, then attend to the slots that may be seen."""
        attention = layer.self_attention
        names = [f"key_values.{index}.{part}" for part in ("key", "value")]
        mixed, present = f"history.{index}", [f"present_{name}" for name in names]
        inputs = [*(f"past_{name}" for name in names), "slot_indices", "page_table", "page_places", "visible"]
        operator = paged_attention(self._num_heads, self._d_head, self._floats)
        self.graph.call(operator, self._projected(h, attention), *inputs, outputs=[mixed, *present])
        return self.linear(self._known_state(mixed), attention.output_projection)

    def _cross_attention(self, h: str, layer: DecoderLayer, index: int) -> str:
        """Attend to the source; what the last layer gives to each position is an output of the graph."""
        attention = layer.cross_attention
        queries, mixed = self.linear(h, attention.query_projection), f"source.{index}"
        names = [f"cross_key_values.{index}.{part}" for part in ("key", "value")]
        inputs = [*names, "source_page_table", "source_page_places", "source_lengths"]
        observed = "attention" if index == self._num_decoder_layers - 1 else ""
        operator = cross_attention(self._num_heads, self._d_head, self._floats)
        self.graph.call(operator, queries, *inputs, outputs=[mixed, observed])
        return self.linear(self._known_state(mixed), attention.output_projection)

    def _known_state(self, x: str) -> str:
        return self.graph.known(x, "batch", self._length, self._d_model, dtype=self._floats)

    def _projected(self, h: str, attention: MultiHeadAttention) -> str:
        """Return queries, keys and values side by side."""
        return self.linear(h, attention.query_projection, attention.key_projection, attention.value_projection)


def _array(tensor: Tensor) -> FloatArray:
    array: FloatArray = tensor.detach().float().cpu().numpy()
    return array
