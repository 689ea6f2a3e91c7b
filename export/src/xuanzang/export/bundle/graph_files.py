"""The graph files of a bundle."""

from __future__ import annotations

from pathlib import Path

from xuanzang.export.bundle.weights_file import write_graphs
from xuanzang.export.graphs.build import GraphSet

ENCODER_FILE = "encoder.onnx"
DECODER_FILE = "decoder.onnx"
SHORTLIST_DECODER_FILE = "decoder.shortlist.onnx"
SUGGESTIONS_FILE = "suggestions.onnx"


def write_graph_files(graphs: GraphSet, folder: Path) -> None:
    """Write the files of graphs and their weights file into a folder."""
    models = {ENCODER_FILE: graphs.encoder, DECODER_FILE: graphs.decoder}
    if graphs.shortlist:
        models |= {SHORTLIST_DECODER_FILE: graphs.shortlist.decoder, SUGGESTIONS_FILE: graphs.shortlist.suggestions}
    write_graphs(models, folder, graphs.weights)
