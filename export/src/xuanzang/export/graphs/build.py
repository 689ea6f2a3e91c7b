"""All graphs of one precision, built and optimised."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import onnx

from xuanzang.export.graphs.fusion import fuse_add_norm_quantize
from xuanzang.export.graphs.precision import Precision
from xuanzang.export.graphs.product_fusion import fuse_products
from xuanzang.export.graphs.shortlist import always_pieces, suggestions_graph
from xuanzang.export.graphs.transformer import decoder_graph, encoder_graph, shortlist_decoder_graph
from xuanzang.export.weight_store import WeightStore
from xuanzang.model.data.shortlist import Shortlist
from xuanzang.model.network.transformer import Transformer


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
    model: Transformer, precision: Precision, shortlist: Shortlist | None = None, weights: WeightStore | None = None
) -> GraphSet:
    """Build and optimise the graphs of a model.

    Args:
        model: Trained weights.
        precision: Number format of the weights.
        shortlist: Suggestions for the model's tokenisers; None for no graphs with a shortlist.
        weights: Store for the weights; None to keep them in the graphs.
    """
    return GraphSet(
        precision=precision.name,
        encoder=_fused(encoder_graph(model, precision, weights)),
        decoder=_fused(decoder_graph(model, precision, weights)),
        shortlist=_shortlist_graphs(model, precision, shortlist, weights) if shortlist else None,
        weights=weights,
    )


def _shortlist_graphs(
    model: Transformer, precision: Precision, shortlist: Shortlist, weights: WeightStore | None
) -> ShortlistGraphs:
    always = always_pieces(shortlist, model.config)
    return ShortlistGraphs(
        suggestions=suggestions_graph(shortlist, model.config, weights),
        decoder=_fused(shortlist_decoder_graph(model, precision, always, weights)),
    )


def _fused(model: onnx.ModelProto) -> onnx.ModelProto:
    return fuse_products(fuse_add_norm_quantize(model))
