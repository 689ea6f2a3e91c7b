"""The graphs of a model opened once more, with the states of their attention among the outputs."""

from __future__ import annotations

import threading
from functools import cached_property
from weakref import WeakKeyDictionary

import onnxruntime

from xuanzang.server.bundles.graphs.attention import AttentionGraph, attention_decoder, attention_encoder
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.runtime.sessions import Sessions


class ShownGraph:
    """An open graph, and what it shows."""

    def __init__(self, sessions: Sessions, name: str, graph: AttentionGraph) -> None:
        """Open the graph.

        Args:
            sessions: Graphs of the same bundle.
            name: File that the graph is made of.
            graph: Graph with more outputs.

        Raises:
            BundleError: It cannot be opened.
        """
        self.session: onnxruntime.InferenceSession = sessions.open(name, graph.content)
        self.queries, self.keys, self.projected = graph.queries, graph.keys, graph.projected


class AttentionGraphs:
    """Encoder and decoder of one model. Threads share them; each is opened when it is first asked for."""

    def __init__(self, model: LoadedModel) -> None:
        """Open nothing yet.

        Args:
            model: Model with open graphs, whose shortlist these use, too.
        """
        self.sessions = model.sessions
        self._bundle = model.bundle
        self._lock = threading.Lock()

    def open_decoder(self) -> ShownGraph:
        """Return the decoder."""
        with self._lock:
            return self._decoder

    def open_encoder(self) -> ShownGraph:
        """Return the encoder."""
        with self._lock:
            return self._encoder

    @cached_property
    def _decoder(self) -> ShownGraph:
        directory, manifest = self._bundle.directory, self._bundle.manifest
        name = manifest.shortlist.decoder.file if self.sessions.has_shortlist else manifest.decoder.file
        graph = attention_decoder(directory, name, layers=manifest.dimensions.num_decoder_layers)
        return ShownGraph(self.sessions, name, graph)

    @cached_property
    def _encoder(self) -> ShownGraph:
        directory, manifest = self._bundle.directory, self._bundle.manifest
        name = manifest.encoder.file
        graph = attention_encoder(directory, name, layers=manifest.dimensions.num_encoder_layers)
        return ShownGraph(self.sessions, name, graph)


class OpenGraphs:
    """The graphs of the models that were explained of late. Belongs to the event loop."""

    def __init__(self) -> None:
        self._graphs: WeakKeyDictionary[LoadedModel, AttentionGraphs] = WeakKeyDictionary()

    def of(self, model: LoadedModel) -> AttentionGraphs:
        """Return the graphs of a model, which opens none.

        Args:
            model: Model with open graphs.
        """
        if model not in self._graphs:
            self._graphs[model] = AttentionGraphs(model)
        return self._graphs[model]

    def close(self) -> None:
        """Let go all graphs."""
        self._graphs.clear()
