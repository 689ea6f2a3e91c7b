"""A sentence decoded once more along a known translation, alone, with what its search had no use for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnxruntime

from xuanzang.server.bundles.graph_interface import is_recurrent
from xuanzang.server.bundles.graphs import AttentionGraph, attention_decoder, attention_encoder
from xuanzang.server.engine.arrays import Floats
from xuanzang.server.engine.decoding.hypotheses import SearchOptions
from xuanzang.server.engine.decoding.logit_edits import LogitEdits, hypothesis_edits, no_edits, stack
from xuanzang.server.engine.decoding.phrase_search import RequiredPhraseSearch
from xuanzang.server.engine.decoding.search_state import DEAD_LIMIT
from xuanzang.server.engine.decoding.shortlist import BatchShortlist, InspectedRows
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.runtime.kv_cache import KeyValueCache
from xuanzang.server.engine.runtime.pages import Tensor

ALTERNATIVES = 5
"""Likeliest tokens that are returned of each step."""


class AttentionGraphs:
    """Encoder and decoder of one model. Threads share them; each is opened when it is first asked for."""

    def __init__(self, model: LoadedModel) -> None:
        self.sessions = model.sessions
        self._bundle = model.bundle
        self._lock = threading.Lock()
        self._open: dict[str, tuple[onnxruntime.InferenceSession, AttentionGraph]] = {}

    def open_decoder(self) -> tuple[onnxruntime.InferenceSession, AttentionGraph]:
        """Return the decoder, and its additional outputs."""
        manifest = self._bundle.manifest
        graph = manifest.shortlist.decoder if self.sessions.has_shortlist else manifest.decoder
        read = partial(attention_decoder, recurrent=is_recurrent(manifest))
        return self._opened(graph.file, read, manifest.dimensions.num_decoder_layers)

    def open_encoder(self) -> tuple[onnxruntime.InferenceSession, AttentionGraph]:
        """Return the encoder, and its additional outputs."""
        manifest = self._bundle.manifest
        return self._opened(manifest.encoder.file, attention_encoder, manifest.dimensions.num_encoder_layers)

    def _opened(
        self, name: str, read: Callable[[Path, str, int], AttentionGraph], layers: int
    ) -> tuple[onnxruntime.InferenceSession, AttentionGraph]:
        with self._lock:
            if name not in self._open:
                graph = read(self._bundle.directory, name, layers)
                # The session has a copy of the content.
                self._open[name] = self.sessions.open_other(name, graph.content), replace(graph, content=b"")
            return self._open[name]


class DecodingStoppedError(Exception):
    """The decoding was given up because its caller is gone."""


class ForcedStates(NamedTuple):
    """Results of one decoding, by step."""

    alternatives: list[list[tuple[int, float]]]
    """Likeliest tokens of each step with their log-probabilities, best first."""
    cross: list[tuple[Floats, Floats]]
    """Queries [step, heads, head] and keys [source, heads, head] of each layer."""
    own: list[tuple[Floats, Floats]]
    """Queries and keys of each layer's self-attention, [step, heads, head]."""


class ForcedDecoding:
    """One sentence alone in the decoder. Belongs to one thread."""

    def __init__(self, graphs: AttentionGraphs, source_ids: Sequence[int], options: SearchOptions) -> None:
        """Encode the sentence, end token included."""
        sessions = graphs.sessions
        session, self._graph = graphs.open_decoder()
        self._ids, self._options = sessions.special_ids, options
        self._heads, self._dtype = sessions.cache_shape.page.num_heads, sessions.cache_shape.dtype
        self._source_length = len(source_ids)
        self._d_model = sessions.dimensions.d_model
        count = min(ALTERNATIVES, sessions.dimensions.target_vocab_size)
        self._count = np.array([count])
        self._cache = KeyValueCache(sessions.cache_shape, 1)
        self._inspected = InspectedRows(sessions, candidate_count=count)
        self._shortlist: BatchShortlist | None = None
        first, ids = np.array([0]), np.array([source_ids])
        if sessions.has_shortlist:
            vocab_size = sessions.dimensions.target_vocab_size
            self._shortlist = BatchShortlist(sessions.common_pieces(), vocab_size=vocab_size, min_pieces=count)
            self._shortlist.join(first, sessions.suggest(ids), [options.forced_ids])
        tensors = self._cache.join(first, np.array([self._source_length]), padded=self._source_length)
        encoder, _ = sessions.new_bindings()
        encoder.bind({"source_ids": ids, **tensors.inputs}, tensors.outputs)
        encoder.run()
        self._binding = sessions.new_binding(session)

    def follow(self, target_ids: Sequence[int], *, stopped: Callable[[], bool]) -> ForcedStates:
        """Decode along a translation of at least one token, once; raise DecodingStoppedError once `stopped` is true."""
        inputs = [self._ids.decoder_start_id, *target_ids[:-1]]
        shown = [self._shown_arrays() for _ in inputs]
        alternatives = []
        for position, token in enumerate(inputs):
            if stopped():
                raise DecodingStoppedError
            alternatives.append(self._step(position, token, target_ids[:position], shown[position]))
        return ForcedStates(alternatives, self._cross_states(shown), self._own_states(shown))

    def _shown_arrays(self) -> dict[str, Floats]:
        widths = dict.fromkeys(self._graph.queries, self._d_model)
        widths |= dict.fromkeys(self._graph.projected, 3 * self._d_model)
        return {name: np.zeros((1, 1, width), self._dtype) for name, width in widths.items()}

    def _step(
        self, position: int, token: int, before: Sequence[int], shown: dict[str, Floats]
    ) -> list[tuple[int, float]]:
        """Decode one token; return the likeliest next ones."""
        self._cache.advance(np.zeros((1, 1), np.int64))
        self._inspected.fit(RequiredPhraseSearch(1, self._ids.eos_id), None)
        count = int(self._count[0])
        scores, ids = np.zeros((1, count), np.float32), np.zeros((1, count), np.int64)
        inputs: dict[str, Tensor] = {
            "token_ids": np.array([[token]]),
            "positions": np.array([[position]]),
            "scores": np.zeros((1, 1), np.float32),
            "candidate_count": self._count,
            **self._edits(before)._asdict(),
            **(self._shortlist.inputs() if self._shortlist else {}),
            **self._inspected.inputs,
            **self._cache.decoder_tensors.inputs,
        }
        outputs: dict[str, Tensor] = {
            "attention": np.zeros((1, 1, self._cache.source_slots), np.float32),
            "candidate_scores": scores,
            "candidate_ids": ids,
            "candidate_parents": np.zeros((1, count), np.int64),
            **self._inspected.outputs,
            **shown,
        }
        self._binding.bind(inputs, {**outputs, **self._cache.decoder_tensors.outputs})
        self._binding.run()
        likeliest = zip(ids[0].tolist(), scores[0].tolist(), strict=True)
        return [(token_id, score) for token_id, score in likeliest if score > DEAD_LIMIT]

    def _edits(self, before: Sequence[int]) -> LogitEdits:
        changes = hypothesis_edits(self._options, before, eos_id=self._ids.eos_id)
        if not changes:
            return no_edits(1, 1)
        edits = stack({(0, 0): changes}, batch=1, beam=1)
        return self._shortlist.translated(edits) if self._shortlist else edits

    def _cross_states(self, shown: Sequence[dict[str, Floats]]) -> list[tuple[Floats, Floats]]:
        return [
            (self._by_head(np.concatenate([each[name][0] for each in shown])), self._source_keys(layer))
            for layer, name in enumerate(self._graph.queries)
        ]

    def _own_states(self, shown: Sequence[dict[str, Floats]]) -> list[tuple[Floats, Floats]]:
        states = []
        for name in self._graph.projected:
            together = np.concatenate([each[name][0] for each in shown])  # [step, 3 · model]
            queries, keys, _ = np.split(together, 3, axis=1)
            states.append((self._by_head(queries), self._by_head(keys)))
        return states

    def _source_keys(self, layer: int) -> Floats:
        """Read the keys of the source from their pages, [source, heads, head]."""
        tensors = self._cache.decoder_tensors.inputs
        pool, table = tensors[f"cross_key_values.{layer}.key"], tensors["source_page_table"]
        pages = pool if isinstance(pool, np.ndarray) else pool.numpy()
        own = table[0] if isinstance(table, np.ndarray) else table.numpy()[0]
        slots = pages[own[own >= 0]].transpose(0, 2, 1, 3)  # [page, slot, heads, head]
        keys: Floats = slots.reshape(-1, *slots.shape[2:])[: self._source_length]
        return keys

    def _by_head(self, states: Floats) -> Floats:
        return states.reshape(len(states), self._heads, -1)


def encoder_states(graphs: AttentionGraphs, source_ids: Sequence[int]) -> list[tuple[Floats, Floats]]:
    """Encode a sentence alone; return queries and keys of each layer, [source, heads, head]."""
    sessions = graphs.sessions
    session, graph = graphs.open_encoder()
    ids, length = np.array([source_ids]), len(source_ids)
    tensors = KeyValueCache(sessions.cache_shape, 1).join(np.array([0]), np.array([length]), padded=length)
    heads, d_model = sessions.cache_shape.page.num_heads, sessions.dimensions.d_model
    parts = dict.fromkeys(graph.projected, 3) | dict.fromkeys((*graph.queries, *graph.keys), 1)
    shown: dict[str, Floats] = {
        name: np.zeros((1, length, count * d_model), sessions.cache_shape.dtype) for name, count in parts.items()
    }
    binding = sessions.new_binding(session)
    binding.bind({"source_ids": ids, **tensors.inputs}, {**tensors.outputs, **shown})
    binding.run()
    states = {name: shown[name].reshape(length, count, heads, -1) for name, count in parts.items()}
    together = [(states[name][:, 0], states[name][:, 1]) for name in graph.projected]
    apart = zip(graph.queries, graph.keys, strict=True)
    return together + [(states[query][:, 0], states[key][:, 0]) for query, key in apart]
