"""Greedy decoding over the exported graphs in onnxruntime, one sentence at a time, as the server does it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import onnx

from xuanzang.export.sessions import graph_session
from xuanzang.export.students.student import Shape
from xuanzang.export.tensors import PAGE_SLOTS

Arrays = Mapping[str, npt.NDArray[np.generic]]


class Continuations(NamedTuple):
    """The best two continuations of a step."""

    ids: list[int]
    log_probs: list[float]
    attention: npt.NDArray[np.float32]
    """To each source slot."""


class StudentRunner:
    """Encoder and decoder, open in onnxruntime."""

    def __init__(
        self, encoder: onnx.ModelProto, decoder: onnx.ModelProto, shape: Shape, *, folder: Path | None = None
    ) -> None:
        """Open the graphs; `folder` holds the file of their weights, unless they hold these."""
        self._shape = shape
        self._decoder, self._encoder = (graph_session(graph, 1, folder) for graph in (decoder, encoder))
        self._names = [output.name for output in self._decoder.get_outputs()]

    def encode(self, source_ids: list[int]) -> Arrays:
        """Return the decoder's inputs that depend on the source, end token included."""
        count, shape = -(-len(source_ids) // PAGE_SLOTS), self._shape
        pages = {"source_lengths": np.array([len(source_ids)]), "source_page_table": np.arange(count)[None]}
        empty = np.zeros((count, shape.num_heads, PAGE_SLOTS, shape.d_head), np.float32)
        past = {value.name: empty for value in self._encoder.get_inputs() if value.name.startswith("past_")}
        names = [output.name for output in self._encoder.get_outputs()]
        found = self._encoder.run(names, {"source_ids": np.array([source_ids]), **pages, **past})
        owners = np.stack([np.zeros(count, np.int64), np.arange(count)], axis=1)
        memory = {name.removeprefix("present_"): value for name, value in zip(names, found, strict=True)}
        return {**pages, "source_page_owners": owners, **memory}

    def start(self) -> Arrays:
        """Return the states before the first step."""
        zeros = np.zeros((1, 1, self._shape.d_model), np.float32)
        return {f"past_states.{layer}": zeros for layer in range(self._shape.num_decoder_layers)}

    def step(self, memory: Arrays, token: int, position: int, states: Arrays) -> tuple[Continuations, Arrays]:
        """Take one step; return its continuations, and the states after it."""
        no_edits = np.zeros((1, 1, 0), np.float32)
        inputs = {
            "token_ids": np.array([[token]]),
            "positions": np.array([[position]]),
            "scores": np.zeros((1, 1), np.float32),
            "parents": np.zeros((1, 1), np.int64),
            "candidate_count": np.array([2]),
            "edited_ids": no_edits.astype(np.int64),
            "edit_penalties": no_edits,
            "edit_biases": no_edits,
            # Without kernels onnxruntime cannot reshape tensors of no rows.
            "inspected_rows": np.zeros(1, np.int64),
            "required_ids": np.zeros((1, 0), np.int64),
        }
        found = dict(zip(self._names, self._decoder.run(self._names, {**inputs, **memory, **states}), strict=True))
        best = Continuations(
            found["candidate_ids"][0].tolist(), found["candidate_scores"][0].tolist(), found["attention"][0, 0]
        )
        after = {name.replace("present", "past"): found[name] for name in self._names if name.startswith("present_")}
        return best, after
