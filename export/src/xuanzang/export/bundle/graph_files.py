"""Names and contents of a bundle's graph files."""

from __future__ import annotations

from xuanzang.export.bundle.weights_file import separate_weights
from xuanzang.export.graphs.build import GraphSet

ENCODER_FILE = "encoder.onnx"
DECODER_FILE = "decoder.onnx"
SHORTLIST_DECODER_FILE = "decoder.shortlist.onnx"
SUGGESTIONS_FILE = "suggestions.onnx"


def graph_files(graphs: GraphSet) -> dict[str, bytes]:
    """Return the contents of graph files and weights file, by name."""
    models = {ENCODER_FILE: graphs.encoder, DECODER_FILE: graphs.decoder}
    if graphs.shortlist:
        models |= {SHORTLIST_DECODER_FILE: graphs.shortlist.decoder, SUGGESTIONS_FILE: graphs.shortlist.suggestions}
    return separate_weights(models)
