"""The encoder and the decoder step as ONNX graphs.

    source_ids ─ encoder ─ cross_key_values, in pages ─────┐
                                                           ├─ decoder ─ candidates, attention, present_key_values ─┐
    token_ids, positions, scores, visible, past_key_values ┘                                                      │
                                                               past_key_values of the next step ◄─────────────────┘

In the decoder the hypotheses of a sentence are query positions over one shared set of slots, each with the key and
value of one token: `visible` says which slots each hypothesis sees. A change of beams changes `visible` and copies no
keys or values. Slots lie in pages (Kwon et al. 2023, arXiv:2309.06180): a sentence has as many as it needs, however
long its neighbours are, and attention reads no others. The encoder writes the keys and values of the source into pages,
too, so that nothing moves when a sentence joins a batch or leaves it.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np
import onnx

from xuanzang.export import tensors
from xuanzang.export.builder import GraphBuilder
from xuanzang.export.graphs.blocks import Blocks
from xuanzang.export.graphs.precision import Int8, Precision
from xuanzang.export.operators.projected_continuations import choose, edit_logits, inspect
from xuanzang.export.operators.source_attention import padding
from xuanzang.export.weight_store import WeightStore
from xuanzang.model.data.shortlist import Ints
from xuanzang.model.network.layers import DecoderLayer, EncoderLayer
from xuanzang.model.network.transformer import Transformer


class SourceTokens(NamedTuple):
    """Names of each token's attributes."""

    places: str
    """Sentence and position, [1, token, 2]."""
    ids: str
    """[1, token]."""
    sentences: str
    """[1, token, 1]."""
    positions: str
    """[1, token, 1]."""


def source_tokens(graph: GraphBuilder) -> SourceTokens:
    """Add nodes that find the tokens of `source_ids`, `source_lengths` for each sentence."""
    length = graph.op("Squeeze", graph.op("Shape", "source_ids", start=1, end=2))
    columns = graph.op("Range", graph.scalar(0), length, graph.scalar(1))
    real = graph.op("Less", columns, graph.op("Unsqueeze", "source_lengths", graph.ints(1)))
    places = graph.op("Unsqueeze", graph.op("Transpose", graph.op("NonZero", real)), graph.ints(0))
    ids = graph.op("GatherND", "source_ids", places)
    return SourceTokens(places, ids, *graph.multi_op("Split", places, outputs=2, axis=2, num_outputs=2))


def source_slots(graph: GraphBuilder, tokens: SourceTokens, num_heads: int) -> str:
    """Add nodes that find where keys and values are written; return the name of [1, token, heads, 3]."""
    page_slots = graph.scalar(tensors.PAGE_SLOTS)
    entries = graph.op("Concat", tokens.sentences, graph.op("Div", tokens.positions, page_slots), axis=2)
    pages = graph.op("Unsqueeze", graph.op("GatherND", "source_page_table", entries), graph.ints(2, 3))
    heads = graph.constant("heads", np.arange(num_heads)[:, None], np.int64)
    slots = graph.op("Unsqueeze", graph.op("Mod", tokens.positions, page_slots), graph.ints(3))
    shape = graph.op("Concat", graph.op("Shape", tokens.ids), graph.ints(num_heads, 1), axis=0)
    parts = [pages, heads, slots]
    return graph.op("Concat", *(graph.op("Expand", part, shape) for part in parts), axis=-1)


def encoder_graph(model: Transformer, precision: Precision, weights: WeightStore | None = None) -> onnx.ModelProto:
    """Build the graph from padded sentences to the keys and values that the decoder attends to.

    It works on the tokens of all sentences one after another; only onnxruntime's attention needs padding.

    Args:
        model: Trained weights.
        precision: Number format of the weights.
        weights: Store for the weights; None to keep them in the graph.
    """
    blocks = Blocks(model, precision, "encoder", weights)
    graph = blocks.graph
    tokens, floats = source_tokens(graph), tensors.floats_of(precision.name)
    gaps = padding(graph, graph.ints(3 * model.config.d_model), floats)
    positions = graph.op("Squeeze", tokens.positions, graph.ints(2))
    x = blocks.embed(tokens.ids, positions, model.source_embedding, model.source_positions)
    x = blocks.norm(x, model.source_embedding_norm)
    for layer in model.encoder_layers:
        x = blocks.encoder_layer(x, cast(EncoderLayer, layer), tokens.places, gaps)
    memory, slots = blocks.norm(x, model.encoder_norm), source_slots(graph, tokens, model.config.num_heads)
    for index, layer in enumerate(model.decoder_layers):
        blocks.cross_key_value(memory, slots, cast(DecoderLayer, layer).cross_attention, index)
    return graph.model(tensors.encoder_inputs(model.config, floats), tensors.encoder_outputs(model.config, floats))


def decoder_graph(model: Transformer, precision: Precision, weights: WeightStore | None = None) -> onnx.ModelProto:
    """Build the graph of one decoder step for every hypothesis of every sentence.

    Args:
        model: Trained weights.
        precision: Number format of the weights.
        weights: Store for the weights; None to keep them in the graph.
    """
    blocks = Blocks(model, precision, "decoder", weights)
    states = _decoder_output(blocks, model)
    banned = blocks.graph.constant("banned_ids", model.config.banned_ids, np.int64)
    if isinstance(precision, Int8):
        blocks.projected_continuations(precision, states, model.output_projection, banned)
    else:
        edited = edit_logits(blocks.graph, blocks.logits(states, model.output_projection))
        choose(blocks.graph, edited, banned, ids="candidate_ids")
        inspect(blocks.graph, edited, banned, ids="row_ids")
    floats = tensors.floats_of(precision.name)
    return blocks.graph.model(
        tensors.decoder_inputs(model.config, floats), tensors.decoder_outputs(model.config, floats)
    )


def shortlist_decoder_graph(
    model: Transformer, precision: Precision, always: Ints, weights: WeightStore | None = None
) -> onnx.ModelProto:
    """Build the graph of a decoder step with a shortlist of pieces for each sentence.

    Logits of the pieces that all sentences share are one product; those of a sentence's own pieces are computed for
    each sentence alone, so that nothing depends on its neighbours, not even rounding.

    Args:
        model: Trained weights.
        precision: Number format of the weights.
        always: Pieces shared by all sentences, from `always_pieces`.
        weights: Store for the weights; None to keep them in the graph.
    """
    blocks = Blocks(model, precision, "decoder", weights)
    states = _decoder_output(blocks, model)
    if isinstance(precision, Int8):
        blocks.shortlisted_continuations(precision, states, model.output_projection, always)
    else:
        blocks.shortlisted_choice(precision, states, model.output_projection, always)
    floats = tensors.floats_of(precision.name)
    return blocks.graph.model(
        tensors.shortlist_decoder_inputs(model.config, floats), tensors.decoder_outputs(model.config, floats)
    )


def _decoder_output(blocks: Blocks, model: Transformer) -> str:
    """Add the decoder up to the projection onto the vocabulary; return the name of its states [batch, beam, model]."""
    x = blocks.embed("token_ids", "positions", model.target_embedding, model.target_positions)
    x = blocks.norm(x, model.target_embedding_norm)
    for index, layer in enumerate(model.decoder_layers):
        x = blocks.decoder_layer(x, cast(DecoderLayer, layer), index)
    return blocks.norm(x, model.decoder_norm)
