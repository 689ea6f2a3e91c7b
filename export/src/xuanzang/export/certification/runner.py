"""A plain beam search over the exported graphs in onnxruntime, kept simple because it is an oracle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime

from xuanzang.export.certification.step_inputs import (
    DEAD_SCORE,
    LiveHypotheses,
    Slots,
    Tensors,
    first_hypotheses,
    page_inputs,
    pages_for,
    step_inputs,
    tensor,
)
from xuanzang.export.graphs.build import GraphSet
from xuanzang.export.graphs.shortlist import PIECES_STEP
from xuanzang.export.sessions import graph_session
from xuanzang.export.tensors import PAGE_SLOTS
from xuanzang.model.beams import UNTIL_FIRST, Beam, Hypothesis, SearchRules
from xuanzang.model.network.config import TransformerConfig


class Candidates(NamedTuple):
    """The best continuations of one step, [batch, 2 · beam] each, best first."""

    scores: npt.NDArray[np.float32]
    ids: npt.NDArray[np.int64]
    parents: npt.NDArray[np.int64]


OnStep = Callable[[LiveHypotheses, Candidates], None]


class OnnxModel:
    """Encoder and decoder, open in onnxruntime."""

    def __init__(
        self,
        encoder: onnx.ModelProto,
        decoder: onnx.ModelProto,
        config: TransformerConfig,
        *,
        folder: Path | None = None,
        threads: int = 1,
    ) -> None:
        """Open the graphs.

        Args:
            decoder: Graph of a decoder step.
            folder: Folder of the file of their weights, unless they hold these.
            threads: Threads inside one operation.
        """
        self.config = config
        # The larger one first, whose largest weight is in memory twice while it is opened.
        self.decoder, self.encoder = (graph_session(graph, threads, folder) for graph in (decoder, encoder))
        self._encoder_outputs = [output.name for output in self.encoder.get_outputs()]
        self._decoder_outputs = [output.name for output in self.decoder.get_outputs()]

    def encode(self, sentences: Sequence[Sequence[int]]) -> Tensors:
        """Return the decoder's inputs that depend on the source, by name."""
        lengths = np.array([len(ids) for ids in sentences], dtype=np.int64)
        source_ids = np.full((len(sentences), lengths.max()), self.config.pad_id, dtype=np.int64)
        for padded, ids in zip(source_ids, sentences, strict=True):
            padded[: len(ids)] = ids
        table, owners = page_inputs(len(sentences), pages_for(source_ids.shape[1]))
        pages = {"source_lengths": tensor(lengths), "source_page_table": tensor(table)}
        past = self._empty(self.encoder, "past_cross_key_values.", pages=table.size)
        feed = {"source_ids": tensor(source_ids), **pages, **past}
        values = self.encoder.run_with_ort_values(self._encoder_outputs, feed)
        memory = {
            name.removeprefix("present_"): value for name, value in zip(self._encoder_outputs, values, strict=True)
        }
        return {**pages, "source_page_owners": tensor(owners), **memory}

    def empty_pages(self, pages: int) -> Tensors:
        """Return keys and values before the first decoder step, with `pages` pages for all sentences."""
        return self._empty(self.decoder, "past_key_values.", pages=pages)

    def _empty(self, session: onnxruntime.InferenceSession, prefix: str, *, pages: int) -> Tensors:
        wanted = [value for value in session.get_inputs() if value.name.startswith(prefix)]
        floats = np.float16 if wanted[0].type == "tensor(float16)" else np.float32
        shape = (pages, self.config.num_heads, PAGE_SLOTS, self.config.d_head)
        return {value.name: tensor(np.zeros(shape, dtype=floats)) for value in wanted}

    def step(self, feed: Tensors) -> Candidates:
        """Run one decoder step, which writes its keys and values into the given ones."""
        binding = self.decoder.io_binding()
        for name, value in feed.items():
            binding.bind_ortvalue_input(name, value)
        for name in self._decoder_outputs:
            if name.startswith("present_"):
                binding.bind_ortvalue_output(name, feed[name.replace("present", "past")])
            else:
                binding.bind_output(name)
        self.decoder.run_with_iobinding(binding)
        outputs = dict(zip(self._decoder_outputs, binding.get_outputs(), strict=True))
        # Copies, because an array of onnxruntime keeps the graph open that it comes from.
        return Candidates(*(np.array(outputs[f"candidate_{name}"].numpy()) for name in Candidates._fields))


class ShortlistedModel(OnnxModel):
    """Encoder, and the decoder that chooses among suggested pieces."""

    def __init__(
        self,
        encoder: onnx.ModelProto,
        decoder: onnx.ModelProto,
        suggestions: onnx.ModelProto,
        config: TransformerConfig,
        *,
        folder: Path | None = None,
    ) -> None:
        super().__init__(encoder, decoder, config, folder=folder)
        self._suggestions = graph_session(suggestions, 1, folder)

    def encode(self, sentences: Sequence[Sequence[int]]) -> Tensors:
        """Return the decoder's inputs that depend on the source, its shortlist included, by name."""
        suggested = [self._suggestions.run(["suggested"], {"source_ids": np.array([ids])})[0][0] for ids in sentences]
        nothing = self.config.target_vocab_size
        choices = np.full((len(sentences), -(-nothing // PIECES_STEP) * PIECES_STEP), nothing)
        for padded, pieces in zip(choices, suggested, strict=True):
            padded[: pieces.sum()] = np.flatnonzero(pieces)
        return super().encode(sentences) | {"choices": tensor(choices)}


def open_graphs(graphs: GraphSet, config: TransformerConfig) -> OnnxModel:
    """Open encoder and decoder of a set of graphs."""
    return OnnxModel(graphs.encoder, graphs.decoder, config, folder=graphs.folder)


def open_shortlisted(graphs: GraphSet, config: TransformerConfig) -> ShortlistedModel | None:
    """Open a set of graphs for decoding with a shortlist, or return None if it has none."""
    if not graphs.shortlist:
        return None
    shortlist = graphs.shortlist
    return ShortlistedModel(graphs.encoder, shortlist.decoder, shortlist.suggestions, config, folder=graphs.folder)


def translate_batch(
    model: OnnxModel,
    sentences: Sequence[Sequence[int]],
    *,
    beam_size: int,
    length_penalty: float,
    max_target_length: int | Sequence[int],
    prefixes: Sequence[Sequence[int]] = (),
    rules: SearchRules = UNTIL_FIRST,
    on_step: OnStep | None = None,
) -> list[list[Hypothesis]]:
    """Translate sentences together by beam search over the decoder graph.

    Args:
        sentences: Source ids, eos last.
        length_penalty: α of score = sum / length^α.
        max_target_length: Maximum number of tokens, eos counted; one for all sentences or one for each.
        prefixes: Beginning of the hypotheses of each sentence, which costs nothing; all of one length, or none.
        on_step: Callback after each step, which gets its hypotheses and their continuations.

    Returns:
        Up to beam_size hypotheses per sentence, best first.
    """
    batch = len(sentences)
    limits = [max_target_length] * batch if isinstance(max_target_length, int) else max_target_length
    beams = [Beam(beam_size, beam_size, length_penalty, limit, rules) for limit in limits]
    memory, slots = model.encode(sentences), Slots(model.empty_pages(batch), batch, beam_size)
    live = first_hypotheses(batch, beam_size, model.config.bos_id)
    for position in range(max(limits)):
        own = slots.take(live.parents)
        feed = step_inputs(model.config, live, position, own, slots.visible)
        candidates = model.step({name: tensor(array) for name, array in feed.items()} | memory | slots.key_values)
        if on_step:
            on_step(live, candidates)
        if prefixes and position < len(prefixes[0]):
            candidates = _forced(candidates, np.array([prefix[position] for prefix in prefixes]))
        live = _advance(beams, candidates, model.config.eos_id)
        if all(beam.done for beam in beams):
            break
    return [beam.hypotheses() for beam in beams]


def _forced(candidates: Candidates, token_ids: npt.NDArray[np.int64]) -> Candidates:
    """Return the candidates of a step that leaves each sentence a single choice, at no cost."""
    scores = np.full_like(candidates.scores, DEAD_SCORE)
    scores[:, 0] = 0.0
    ids = np.broadcast_to(token_ids[:, None], candidates.ids.shape)
    return Candidates(scores, ids, np.zeros_like(candidates.parents))


def _advance(beams: Sequence[Beam], candidates: Candidates, eos_id: int) -> LiveHypotheses:
    scores = np.where(candidates.scores < DEAD_SCORE / 2, -np.inf, candidates.scores)
    for beam, *best in zip(beams, scores, candidates.parents, candidates.ids, strict=True):
        beam.advance(best[0].tolist(), best[1].tolist(), best[2].tolist(), eos_id)
    kept = np.array([beam.scores for beam in beams], dtype=np.float32)
    return LiveHypotheses(
        np.array([beam.last for beam in beams], dtype=np.int64),
        np.where(np.isneginf(kept), np.float32(DEAD_SCORE), kept),
        np.array([beam.parents for beam in beams], dtype=np.int64),
    )
