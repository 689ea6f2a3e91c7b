"""Running the exported graphs: a plain beam search with onnxruntime, kept simple because it is an oracle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime

from xuanzang.export.shortlist import LANES
from xuanzang.export.tensors import PAGE_SLOTS
from xuanzang.kernels import library
from xuanzang.model.config import TransformerConfig
from xuanzang.model.search import Beam, Hypothesis

DEAD_SCORE = -1.0e9
"""Score of a row that holds no hypothesis; its continuations can never reach a real one's score."""


class Candidates(NamedTuple):
    """The best continuations of one step, [batch, 2 · beam] each, best first."""

    scores: npt.NDArray[np.float32]
    ids: npt.NDArray[np.int64]
    parents: npt.NDArray[np.int64]


class Rows(NamedTuple):
    """The hypotheses that one step continues, [batch, beam] each."""

    token_ids: npt.NDArray[np.int64]
    scores: npt.NDArray[np.float32]
    parents: npt.NDArray[np.int64]
    """Where each stood before the last selection."""


OnStep = Callable[[Rows, Candidates], None]


class OnnxModel:
    """The two graphs, loaded."""

    def __init__(
        self, encoder: onnx.ModelProto, decoder: onnx.ModelProto, config: TransformerConfig, *, threads: int = 2
    ) -> None:
        self.config = config
        self.encoder, self.decoder = _session(encoder, threads), _session(decoder, threads)
        self._encoder_outputs = [output.name for output in self.encoder.get_outputs()]
        self._decoder_outputs = [output.name for output in self.decoder.get_outputs()]

    def encode(self, sentences: Sequence[Sequence[int]]) -> dict[str, onnxruntime.OrtValue]:
        """Return what the decoder attends to, by input name."""
        lengths = np.array([len(ids) for ids in sentences], dtype=np.int64)
        source_ids = np.full((len(sentences), lengths.max()), self.config.pad_id, dtype=np.int64)
        for row, ids in zip(source_ids, sentences, strict=True):
            row[: len(ids)] = ids
        table, places = _page_inputs(len(sentences), places_for(source_ids.shape[1]))
        pages = {"source_lengths": _value(lengths), "source_page_table": _value(table)}
        past = self._empty(self.encoder, "past_cross_key_values.", pages=table.size)
        feed = {"source_ids": _value(source_ids), **pages, **past}
        values = self.encoder.run_with_ort_values(self._encoder_outputs, feed)
        memory = {
            name.removeprefix("present_"): value for name, value in zip(self._encoder_outputs, values, strict=True)
        }
        return {**pages, "source_page_places": _value(places), **memory}

    def empty_pages(self, batch: int, places: int) -> dict[str, onnxruntime.OrtValue]:
        """Return the past of a decoder that has seen no token and may write to some pages per sentence."""
        return self._empty(self.decoder, "past_key_values.", pages=batch * places)

    def _empty(
        self, session: onnxruntime.InferenceSession, prefix: str, *, pages: int
    ) -> dict[str, onnxruntime.OrtValue]:
        wanted = [value for value in session.get_inputs() if value.name.startswith(prefix)]
        floats = np.float16 if wanted[0].type == "tensor(float16)" else np.float32
        empty = np.zeros((pages, self.config.num_heads, PAGE_SLOTS, self.config.d_head), dtype=floats)
        return dict.fromkeys((value.name for value in wanted), _value(empty))

    def step(self, feed: dict[str, onnxruntime.OrtValue]) -> tuple[Candidates, dict[str, onnxruntime.OrtValue]]:
        """Run one decoder step; returns the candidates and the past of the next step."""
        values = self.decoder.run_with_ort_values(self._decoder_outputs, feed)
        outputs = dict(zip(self._decoder_outputs, values, strict=True))
        candidates = Candidates(*(outputs[f"candidate_{name}"].numpy() for name in Candidates._fields))
        past = {
            name.replace("present", "past"): value
            for name, value in outputs.items()
            if name.startswith("present_key_values.")
        }
        return candidates, past


class ShortlistedModel(OnnxModel):
    """The graphs with the decoder that chooses among suggested pieces."""

    def __init__(
        self,
        encoder: onnx.ModelProto,
        decoder: onnx.ModelProto,
        suggestions: onnx.ModelProto,
        config: TransformerConfig,
    ) -> None:
        super().__init__(encoder, decoder, config)
        self._suggestions = _session(suggestions, 1)

    def encode(self, sentences: Sequence[Sequence[int]]) -> dict[str, onnxruntime.OrtValue]:
        """Return what the decoder attends to and what it chooses from, by input name."""
        suggested = [self._suggestions.run(["suggested"], {"source_ids": np.array([ids])})[0][0] for ids in sentences]
        nothing = self.config.target_vocab_size
        choices = np.full((len(sentences), -(-nothing // LANES) * LANES), nothing)
        for row, pieces in zip(choices, suggested, strict=True):
            row[: pieces.sum()] = np.flatnonzero(pieces)
        return super().encode(sentences) | {"choices": _value(choices)}


def translate_batch(
    model: OnnxModel,
    sentences: Sequence[Sequence[int]],
    *,
    beam_size: int,
    length_penalty: float,
    max_target_length: int,
    on_step: OnStep | None = None,
) -> list[list[Hypothesis]]:
    """Translate sentences together by beam search over the decoder graph.

    Args:
        model: The graphs.
        sentences: Source ids, eos last.
        beam_size: Hypotheses kept.
        length_penalty: α of score = sum / length^α.
        max_target_length: Most tokens, eos counted.
        on_step: Called after each step with what was asked and answered.

    Returns:
        Up to beam_size hypotheses per sentence, best first.
    """
    batch, places = len(sentences), places_for(max_target_length * beam_size)
    beams = [Beam(beam_size, beam_size, length_penalty, max_target_length) for _ in sentences]
    memory, past = model.encode(sentences), model.empty_pages(batch, places)
    visible = np.zeros((batch, beam_size, places * PAGE_SLOTS), dtype=bool)
    rows = _first_rows(batch, beam_size, model.config.bos_id)
    for position in range(max_target_length):
        # No slot is used twice: wasteful, but there is nothing to get wrong.
        own = position * beam_size + np.arange(beam_size)
        visible = np.take_along_axis(visible, rows.parents[:, :, None], 1)
        visible[:, np.arange(beam_size), own] = True
        feed = step_inputs(model.config, rows, position, own, visible)
        candidates, past = model.step({name: _value(array) for name, array in feed.items()} | memory | past)
        if on_step:
            on_step(rows, candidates)
        rows = _advance(beams, candidates, model.config.eos_id)
        if all(beam.done for beam in beams):
            break
    return [beam.hypotheses() for beam in beams]


def places_for(slots: int) -> int:
    """Return how many places of the page table a sentence needs for some slots."""
    return -(-slots // PAGE_SLOTS)


def step_inputs(
    config: TransformerConfig,
    rows: Rows,
    position: int,
    slots: npt.NDArray[np.int64],
    visible: npt.NDArray[np.bool_],
) -> dict[str, npt.NDArray[np.generic]]:
    """Return the inputs of a step for sentences at the same position, but for cache and memory.

    Args:
        config: Of the model.
        rows: What is continued.
        position: Of the last tokens.
        slots: That the hypotheses of each sentence write to, [beam].
        visible: What each may see, [batch, beam, slot].
    """
    batch, beam = rows.token_ids.shape
    table, places = _page_inputs(batch, visible.shape[2] // PAGE_SLOTS)
    page, head = table[:, slots // PAGE_SLOTS, None], np.arange(config.num_heads)
    indices = np.broadcast_arrays(page, head, slots[:, None] % PAGE_SLOTS)
    no_edits = np.zeros((batch, beam, 0))
    return {
        "token_ids": rows.token_ids,
        "positions": np.full((batch, 1), position, dtype=np.int64),
        "scores": rows.scores,
        "slot_indices": np.stack(indices, axis=-1),
        "page_table": table,
        "page_places": places,
        "visible": visible,
        "candidate_count": np.array([2 * beam]),
        "edited_ids": no_edits.astype(np.int64),
        "edit_penalties": no_edits.astype(np.float32),
        "edit_biases": no_edits.astype(np.float32),
    }


def _page_inputs(batch: int, places: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return page_table and page_places of sentences that have all their pages."""
    table = np.arange(batch * places).reshape(batch, places)
    return table, np.argwhere(table >= 0)


def _first_rows(batch: int, beam_size: int, bos_id: int) -> Rows:
    scores = np.full((batch, beam_size), DEAD_SCORE, dtype=np.float32)
    scores[:, 0] = 0.0
    return Rows(np.full((batch, beam_size), bos_id, dtype=np.int64), scores, np.tile(np.arange(beam_size), (batch, 1)))


def _advance(beams: Sequence[Beam], candidates: Candidates, eos_id: int) -> Rows:
    scores = np.where(candidates.scores < DEAD_SCORE / 2, -np.inf, candidates.scores)
    for beam, *row in zip(beams, scores, candidates.parents, candidates.ids, strict=True):
        beam.advance(row[0].tolist(), row[1].tolist(), row[2].tolist(), eos_id)
    live = np.array([beam.scores for beam in beams], dtype=np.float32)
    return Rows(
        np.array([beam.last for beam in beams], dtype=np.int64),
        np.where(np.isneginf(live), np.float32(DEAD_SCORE), live),
        np.array([beam.parents for beam in beams], dtype=np.int64),
    )


def _session(model: onnx.ModelProto, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    if operators := library():
        options.register_custom_ops_library(str(operators))
    # onnxruntime's fused residual + norm kernel is four times slower on CPU than the two it replaces.
    return onnxruntime.InferenceSession(
        model.SerializeToString(),
        options,
        providers=["CPUExecutionProvider"],
        disabled_optimizers=["SkipLayerNormFusion"],
    )


def _value(array: npt.NDArray[np.generic]) -> onnxruntime.OrtValue:
    return onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array))
