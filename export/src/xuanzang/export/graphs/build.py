"""The encoder and the decoder step as ONNX graphs, built in one precision and optimised.

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

from dataclasses import dataclass
from pathlib import Path

import onnx

from xuanzang.export import tensors
from xuanzang.export.graphs.blocks import Blocks
from xuanzang.export.graphs.choice import choose_from_all, choose_from_shortlist
from xuanzang.export.graphs.fusion import fuse_add_norm_quantize
from xuanzang.export.graphs.precision import Precision
from xuanzang.export.graphs.product_fusion import fuse_products
from xuanzang.export.graphs.shortlist import Ints, always_pieces, suggestions_graph
from xuanzang.export.graphs.source import source_slots, source_tokens
from xuanzang.export.operators.source_attention import padding
from xuanzang.export.weight_store import WeightStore
from xuanzang.model.data.shortlist import Shortlist
from xuanzang.model.network.arrays import ArrayNetwork, layer_names


def encoder_graph(network: ArrayNetwork, precision: Precision, weights: WeightStore | None = None) -> onnx.ModelProto:
    """Build the graph from padded sentences to the keys and values that the decoder attends to.

    It works on the tokens of all sentences one after another; only onnxruntime's attention needs padding.

    Args:
        network: Trained weights.
        precision: Number format of the weights.
        weights: Store for the weights; None to keep them in the graph.
    """
    blocks = Blocks(network, precision, "encoder", weights)
    graph = blocks.graph
    tokens, floats = source_tokens(graph), tensors.floats_of(precision.name)
    gaps = padding(graph, graph.ints(3 * network.config.d_model), floats)
    positions = graph.op("Squeeze", tokens.positions, graph.ints(2))
    x = blocks.embed(tokens.ids, positions, "source")
    for layer in layer_names(network.config, "encoder"):
        x = blocks.encoder_layer(x, layer, tokens.places, gaps)
    memory, slots = blocks.norm(x, "encoder_norm"), source_slots(graph, tokens, network.config.num_heads)
    for index, layer in enumerate(layer_names(network.config, "decoder")):
        blocks.cross_key_value(memory, slots, f"{layer}.cross_attention", index)
    return graph.model(tensors.encoder_inputs(network.config, floats), tensors.encoder_outputs(network.config, floats))


def decoder_graph(network: ArrayNetwork, precision: Precision, weights: WeightStore | None = None) -> onnx.ModelProto:
    """Build the graph of one decoder step for every hypothesis of every sentence.

    Args:
        network: Trained weights.
        precision: Number format of the weights.
        weights: Store for the weights; None to keep them in the graph.
    """
    blocks = Blocks(network, precision, "decoder", weights)
    states = _decoder_output(blocks, network)
    choose_from_all(blocks.graph, precision, states, blocks.projection(), network.config.banned_ids)
    floats = tensors.floats_of(precision.name)
    return blocks.graph.model(
        tensors.decoder_inputs(network.config, floats), tensors.decoder_outputs(network.config, floats)
    )


def shortlist_decoder_graph(
    network: ArrayNetwork, precision: Precision, always: Ints, weights: WeightStore | None = None
) -> onnx.ModelProto:
    """Build the graph of a decoder step with a shortlist of pieces for each sentence.

    Args:
        network: Trained weights.
        precision: Number format of the weights.
        always: Pieces shared by all sentences, from `always_pieces`.
        weights: Store for the weights; None to keep them in the graph.
    """
    blocks = Blocks(network, precision, "decoder", weights)
    states = _decoder_output(blocks, network)
    choose_from_shortlist(blocks.graph, precision, states, blocks.projection(), always)
    floats = tensors.floats_of(precision.name)
    return blocks.graph.model(
        tensors.with_choices(tensors.decoder_inputs(network.config, floats)),
        tensors.decoder_outputs(network.config, floats),
    )


def _decoder_output(blocks: Blocks, network: ArrayNetwork) -> str:
    """Add the decoder up to the projection onto the vocabulary; return the name of its states [batch, beam, model]."""
    x = blocks.embed("token_ids", "positions", "target")
    for index, layer in enumerate(layer_names(network.config, "decoder")):
        x = blocks.decoder_layer(x, layer, index)
    return blocks.norm(x, "decoder_norm")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortlistGraphs:
    """Graphs of decoding with a shortlist."""

    suggestions: onnx.ModelProto
    decoder: onnx.ModelProto


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSet:
    """Checked graphs of one precision."""

    precision: str
    """Name of the number format, as in the manifest."""
    encoder: onnx.ModelProto
    decoder: onnx.ModelProto
    shortlist: ShortlistGraphs | None = None
    weights: WeightStore | None = None
    """File of the weights; None if the graphs hold them."""

    @property
    def folder(self) -> Path | None:
        """Folder of the file of the weights, if they lie in one."""
        return self.weights.folder if self.weights else None


def build_graphs(
    network: ArrayNetwork, precision: Precision, shortlist: Shortlist | None = None, weights: WeightStore | None = None
) -> GraphSet:
    """Build and optimise the graphs of a model.

    Args:
        network: Trained weights.
        precision: Number format of the weights.
        shortlist: Suggestions for the model's tokenisers; None for no graphs with a shortlist.
        weights: Store for the weights; None to keep them in the graphs.
    """
    return GraphSet(
        precision=precision.name,
        encoder=_fused(encoder_graph(network, precision, weights)),
        decoder=_fused(decoder_graph(network, precision, weights)),
        shortlist=_shortlist_graphs(network, precision, shortlist, weights) if shortlist else None,
        weights=weights,
    )


def _shortlist_graphs(
    network: ArrayNetwork, precision: Precision, shortlist: Shortlist, weights: WeightStore | None
) -> ShortlistGraphs:
    always = always_pieces(shortlist, network.config)
    return ShortlistGraphs(
        suggestions=suggestions_graph(shortlist, network.config, weights),
        decoder=_fused(shortlist_decoder_graph(network, precision, always, weights)),
    )


def _fused(model: onnx.ModelProto) -> onnx.ModelProto:
    return fuse_products(fuse_add_norm_quantize(model))
