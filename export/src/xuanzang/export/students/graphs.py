"""Encoder and decoder step of a student as ONNX graphs.

x ─┬─ W, Wf ─ c' = f · c + (1 − f) · u ─ ReLU ─ (+) ─ norm ─ attention to the source ─ norm ─ feed-forward ─ norm ─
   └────────────────────────────────────────────┘
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from xuanzang.export import tensors
from xuanzang.export.builder import GraphBuilder
from xuanzang.export.graphs.choice import choose_from_all, choose_from_shortlist
from xuanzang.export.graphs.fusion import fuse_add_norm_quantize
from xuanzang.export.graphs.precision import Floats, Integers, Linear, Precision
from xuanzang.export.graphs.product_fusion import fuse_products
from xuanzang.export.graphs.shortlist import Ints
from xuanzang.export.graphs.source import SourceTokens, source_slots, source_tokens, write_key_values
from xuanzang.export.operators.attention import cross_attention, first_head_attention
from xuanzang.export.operators.products import MARIAN_EPSILON, embedded_rows
from xuanzang.export.operators.source_attention import Padding, attend, padding
from xuanzang.export.students.student import (
    MAX_POSITIONS,
    StoredArray,
    Student,
    StudentError,
    Tensor,
    shape_of,
    sinusoids,
    tables_of,
)
from xuanzang.export.weight_store import RowBlocks, WeightStore, row_blocks

_LARGEST = 127
"""Marian's limit of rounded activations, on both sides."""
_MIDDLE = 128
"""Unsigned integer for an activation of 0 that leaves room for the largest above it, and for one more below."""


def encoder_graph(student: Student, precision: Precision, weights: WeightStore | None = None) -> onnx.ModelProto:
    """Build the graph from padded sentences to the keys and values that the decoder attends to.

    Args:
        precision: Number format of the weights; `Int8` for the integers of the file.
        weights: Store for the weights; None to keep them in the graph.
    """
    blocks = _Blocks(student, precision, "encoder", weights)
    graph, shape = blocks.graph, blocks.shape
    tokens, gaps = source_tokens(graph), padding(graph, graph.ints(3 * shape.d_model))
    x = blocks.embedded_source(tokens)
    for layer in range(1, shape.num_encoder_layers + 1):
        x = blocks.encoder_layer(x, layer, tokens.places, gaps)
    slots = source_slots(graph, tokens, shape.num_heads)
    for index in range(shape.num_decoder_layers):
        both = blocks.linear(x, f"decoder_l{index + 1}_context", "k", "v")
        write_key_values(graph, both, slots, shape.num_heads, shape.d_head, index)
    return _fused(graph.model(tensors.encoder_inputs(shape), tensors.encoder_outputs(shape)))


def decoder_graph(student: Student, precision: Precision, weights: WeightStore | None = None) -> onnx.ModelProto:
    """Build the graph of one decoder step for every hypothesis of every sentence; arguments as of `encoder_graph`."""
    blocks = _Blocks(student, precision, "decoder", weights)
    choose_from_all(blocks.graph, precision, blocks.decoder(), blocks.projection(), blocks.shape.banned_ids)
    inputs, outputs = tensors.recurrent_decoder_inputs(blocks.shape), tensors.recurrent_decoder_outputs(blocks.shape)
    return _fused(blocks.graph.model(inputs, outputs))


def shortlist_decoder_graph(
    student: Student, precision: Precision, always: Ints, weights: WeightStore | None = None
) -> onnx.ModelProto:
    """Build the graph of a decoder step with few choices for each sentence.

    Args:
        precision: Number format of the weights; `Int8` for the integers of the file.
        always: Pieces shared by all sentences, from `always_pieces`.
        weights: Store for the weights; None to keep them in the graph.
    """
    blocks = _Blocks(student, precision, "decoder", weights)
    choose_from_shortlist(blocks.graph, precision, blocks.decoder(), blocks.projection(), always)
    inputs = tensors.with_choices(tensors.recurrent_decoder_inputs(blocks.shape))
    return _fused(blocks.graph.model(inputs, tensors.recurrent_decoder_outputs(blocks.shape)))


def _fused(model: onnx.ModelProto) -> onnx.ModelProto:
    return fuse_products(fuse_add_norm_quantize(model))


class _Blocks:
    """Adds the blocks of one student to one graph; inputs and outputs of the methods are names of values."""

    def __init__(self, student: Student, precision: Precision, name: str, weights: WeightStore | None) -> None:
        self.graph, self.shape = GraphBuilder(name, weights), shape_of(student)
        self._tensors, self._precision = student.tensors, precision
        self._source_table, self._target_table = tables_of(student)
        self._rows = tensors.STATE_AXES[name]

    def embedded_source(self, tokens: SourceTokens) -> str:
        """Embed the tokens of all sentences, [1, token, model]."""
        positions = self.graph.op("Squeeze", tokens.positions, self.graph.ints(2))
        return self._placed(self._embedded(tokens.ids, self._source_table), positions)

    def encoder_layer(self, x: str, layer: int, places: str, gaps: Padding) -> str:
        """Add an encoder layer; places are those of the tokens, [1, token, 2]."""
        prefix = f"encoder_l{layer}_self"
        mixed = attend(self.graph, self.linear(x, prefix, "q", "k", "v"), places, gaps, self.shape.num_heads)
        x = self._residual(x, self.linear(mixed, prefix, "o"), f"{prefix}_Wo")
        return self._feed_forward(x, f"encoder_l{layer}_ffn")

    def decoder(self) -> str:
        """Add the decoder up to the projection onto the vocabulary, [batch, beam, model]."""
        graph = self.graph
        # The first input is no embedding but zeros.
        begun = graph.op(
            "Unsqueeze", graph.cast(graph.op("Greater", "positions", graph.scalar(0)), "float32"), graph.ints(2)
        )
        x = self._placed(graph.op("Mul", self._embedded("token_ids", self._target_table), begun), "positions")
        parents = graph.op("Unsqueeze", "parents", graph.ints(2))
        for index in range(self.shape.num_decoder_layers):
            x = self._recurrence(x, index, parents)
            x = self._attend_to_source(x, index)
            x = self._feed_forward(x, f"decoder_l{index + 1}_ffn")
        return x

    def _recurrence(self, x: str, index: int, parents: str) -> str:
        """Let each hypothesis continue the state of its parent; parents are [batch, beam, 1]."""
        graph, prefix = self.graph, f"decoder_l{index + 1}_rnn"
        past = self._known(graph.op("GatherND", f"past_states.{index}", parents, batch_dims=1))
        update, gate = graph.multi_op("Split", self.linear(x, prefix, "", "f"), outputs=2, axis=2, num_outputs=2)
        forget = graph.op("Sigmoid", gate)
        rest = graph.op("Sub", graph.constant("one", 1.0, np.float32), forget)
        state = f"present_states.{index}"
        graph.op("Add", graph.op("Mul", forget, past), graph.op("Mul", rest, update), output=state)
        return self._residual(x, graph.op("Relu", state), f"{prefix}_ffn")

    def _attend_to_source(self, x: str, index: int) -> str:
        """Add attention to the source; that of the first head of the last layer is an output of the graph."""
        prefix, shape = f"decoder_l{index + 1}_context", self.shape
        queries, mixed = self.linear(x, prefix, "q"), f"cross_attention.{index}"
        key, value = (f"cross_key_values.{index}.{part}" for part in ("key", "value"))
        pages = ["source_page_table", "source_page_owners", "source_lengths"]
        operator = cross_attention(shape.num_heads, shape.d_head)
        self.graph.call(operator, queries, key, value, *pages, outputs=[mixed, ""])
        if index == shape.num_decoder_layers - 1:
            aligned = first_head_attention(shape.num_heads, shape.d_head)
            self.graph.call(aligned, queries, key, *pages, outputs=["attention"])
        return self._residual(x, self.linear(self._known(mixed), prefix, "o"), f"{prefix}_Wo")

    def _feed_forward(self, x: str, prefix: str) -> str:
        inner = self.graph.op("Relu", self.linear(x, prefix, "1"))
        return self._residual(x, self.linear(inner, prefix, "2"), f"{prefix}_ffn")

    def _residual(self, x: str, y: str, norm: str) -> str:
        """Add a sum, and its normalisation."""
        total = self._known(self.graph.op("Add", x, y))
        scale, shift = (f"{norm}_ln_{name}" for name in ("scale", "bias"))
        for name in (scale, shift):
            self.graph.constant(name, self._tensors[name].floats.reshape(-1), np.float32)
        return self.graph.op("LayerNormalization", total, scale, shift, epsilon=MARIAN_EPSILON, axis=-1)

    def linear(self, x: str, prefix: str, *parts: str) -> str:
        """Apply the layers `prefix_Wpart` side by side, as one product where the file rounds their input alike."""
        if self._precision.name == "int8" and len({self._weight(prefix, part).activation_scale for part in parts}) > 1:
            return self.graph.op("Concat", *(self.linear(x, prefix, part) for part in parts), axis=-1)
        weights = [self._weight(prefix, part) for part in parts]
        biases = [
            bias.floats.reshape(-1) if (bias := self._tensors.get(f"{prefix}_b{part}")) else np.zeros(width, np.float32)
            for part, width in zip(parts, (weight.array.shape[1] for weight in weights), strict=True)
        ]
        arrays = [weight.array for weight in weights]
        layer = self._layer(f"{prefix}_W{parts[0]}", weights, arrays, is_positive=parts == ("2",))
        return self._precision.linear(self.graph, x, layer._replace(bias=np.concatenate(biases)))

    def projection(self) -> Linear:
        """Return the projection onto the vocabulary, which is the table of the target's embeddings."""
        table = self._tensors[self._target_table]
        layer = self._layer("output", [table], [table.array.T])
        return layer._replace(bias=self._tensors["decoder_ff_logit_out_b"].floats.reshape(-1))

    def _weight(self, prefix: str, part: str) -> Tensor:
        return self._tensors[f"{prefix}_W{part}"]

    def _layer(
        self, name: str, weights: Sequence[Tensor], arrays: Sequence[StoredArray], *, is_positive: bool = False
    ) -> Linear:
        """Return matrices side by side, whose values are arrays [in, out], as one layer without bias.

        `is_positive`: whether the input has no negative numbers, so that no cut is needed below.
        """
        scales = [np.float32(1) if weight.scale is None else np.float32(1 / weight.scale) for weight in weights]
        floats = [array.astype(np.float32) * scale for array, scale in zip(arrays, scales, strict=True)]
        layer = Linear(name, np.concatenate(floats, axis=1), None)
        if self._precision.name != "int8":
            return layer
        activation_scale = weights[0].activation_scale
        if activation_scale is None or any(weight.scale is None for weight in weights):
            raise StudentError(f"{name} has no multipliers of quantisation: only a bundle in float32 can be made of it")
        integers = Integers(
            np.concatenate(arrays, axis=1),
            np.repeat(scales, [array.shape[1] for array in arrays]),
            1 / activation_scale,
            _MIDDLE,
            None if is_positive else _LARGEST / activation_scale,
        )
        return layer._replace(integers=integers)

    def _embedded(self, ids: str, name: str) -> str:
        """Look up the rows of a table, times the square root of the width."""
        table, factor = self._tensors[name], np.sqrt(np.float32(self.shape.d_model))
        array = table.array
        if self._precision.name == "int8" and table.scale is not None:
            # A shortlist's decoder has one more piece, which stands for none; so both have the same bytes.
            padded = np.pad(array, ((0, 1), (0, 0)))
            rows = self.graph.constant(name, row_blocks(padded), np.int8)
            scale = self.graph.constant(f"{name}.scale", np.float32(1 / table.scale) * factor, np.float32)
            embedded = f"{name}.embedded"
            self.graph.call(embedded_rows(), rows, scale, ids, outputs=[embedded])
            return self.graph.known(embedded, *self._rows, self.shape.d_model)
        scale = factor if table.scale is None else np.float32(1 / table.scale) * factor
        blocks = RowBlocks(array.shape, lambda start, stop: array[start:stop] * scale)
        return Floats("float32").embedding(self.graph, ids, name, blocks)

    def _placed(self, x: str, positions: str) -> str:
        """Add the encoding of positions."""
        table = row_blocks(sinusoids(MAX_POSITIONS, self.shape.d_model))
        encoded = Floats("float32").embedding(self.graph, positions, "positional", table)
        return self._known(self.graph.op("Add", x, encoded))

    def _known(self, x: str) -> str:
        return self.graph.known(x, *self._rows, self.shape.d_model)
