"""All graphs of one precision: built, optimised, opened or written together."""

from __future__ import annotations

from dataclasses import dataclass

import onnx

from xuanzang.export.fusion import fuse_add_norm_quantize
from xuanzang.export.graphs import decoder_graph, encoder_graph, shortlist_decoder_graph
from xuanzang.export.manifest import DECODER_FILE, ENCODER_FILE, SHORTLIST_DECODER_FILE, SUGGESTIONS_FILE
from xuanzang.export.precision import Precision
from xuanzang.export.runner import OnnxModel, ShortlistedModel
from xuanzang.export.shortlist import always_pieces, suggestions_graph
from xuanzang.export.weights_file import separate_weights
from xuanzang.model.config import TransformerConfig
from xuanzang.model.data.shortlist import Shortlist
from xuanzang.model.transformer import Transformer


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

    def open(self, config: TransformerConfig) -> OnnxModel:
        """Open encoder and decoder in onnxruntime."""
        return OnnxModel(self.encoder, self.decoder, config)

    def open_shortlisted(self, config: TransformerConfig) -> ShortlistedModel | None:
        """Open the graphs of decoding with a shortlist in onnxruntime, if there are any."""
        if not self.shortlist:
            return None
        return ShortlistedModel(self.encoder, self.shortlist.decoder, self.shortlist.suggestions, config)

    def files(self) -> dict[str, bytes]:
        """Return the contents of graph files and weights file, by name."""
        graphs = {ENCODER_FILE: self.encoder, DECODER_FILE: self.decoder}
        if self.shortlist:
            graphs |= {SHORTLIST_DECODER_FILE: self.shortlist.decoder, SUGGESTIONS_FILE: self.shortlist.suggestions}
        return separate_weights(graphs)


def build_graphs(model: Transformer, precision: Precision, shortlist: Shortlist | None = None) -> GraphSet:
    """Build and optimise the graphs of a model.

    Args:
        model: Trained weights.
        precision: Number format of the weights.
        shortlist: Suggestions for the model's tokenisers; None for no graphs with a shortlist.
    """
    return GraphSet(
        precision=precision.name,
        encoder=fuse_add_norm_quantize(encoder_graph(model, precision)),
        decoder=fuse_add_norm_quantize(decoder_graph(model, precision)),
        shortlist=_shortlist_graphs(model, precision, shortlist) if shortlist else None,
    )


def _shortlist_graphs(model: Transformer, precision: Precision, shortlist: Shortlist) -> ShortlistGraphs:
    always = always_pieces(shortlist, model.config)
    return ShortlistGraphs(
        suggestions=suggestions_graph(shortlist, model.config),
        decoder=fuse_add_norm_quantize(shortlist_decoder_graph(model, precision, always)),
    )
