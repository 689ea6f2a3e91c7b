"""Inputs of the decoder graph: hypotheses, and the slots and pages of their keys and values."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import onnxruntime

from xuanzang.export.tensors import PAGE_SLOTS
from xuanzang.model.network.config import TransformerConfig

DEAD_SCORE = -1.0e9
"""Score of a beam position without hypothesis; its continuations never reach the score of a real one."""


class LiveHypotheses(NamedTuple):
    """The hypotheses that one step continues, [batch, beam] each."""

    token_ids: npt.NDArray[np.int64]
    scores: npt.NDArray[np.float32]
    parents: npt.NDArray[np.int64]
    """Beam position of each before the last selection."""


Tensors = dict[str, onnxruntime.OrtValue]
"""Inputs of a graph, by name."""


class Slots:
    """Room for the keys and values of a batch; a slot that no hypothesis sees is free again."""

    def __init__(self, key_values: Tensors, batch: int, beam_size: int) -> None:
        """Begin with nothing visible.

        Args:
            key_values: Empty pages, one for each sentence.
            batch: Number of sentences.
        """
        self.key_values = key_values
        """Pages of all sentences, the inputs of the decoder."""
        self.visible = np.zeros((batch, beam_size, PAGE_SLOTS), dtype=bool)
        """True at the slots that each hypothesis sees, [batch, beam, slot]."""

    def take(self, parents: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Let hypotheses see what their parents saw, and a free slot of their own.

        Args:
            parents: Beam position of each hypothesis before the last selection, [batch, beam].

        Returns:
            Their own slots, [batch, beam].
        """
        self.visible = np.take_along_axis(self.visible, parents[:, :, None], 1)
        beam_size = parents.shape[1]
        while (free := ~self.visible.any(axis=1)).sum(axis=1).min() < beam_size:
            self._grow()
        own = np.argsort(~free, axis=1, kind="stable")[:, :beam_size]
        np.put_along_axis(self.visible, own[:, :, None], True, 2)
        return own

    def _grow(self) -> None:
        for name, value in self.key_values.items():
            pages = value.numpy()
            self.key_values[name] = tensor(np.concatenate([pages, np.zeros_like(pages[: len(self.visible)])]))
        self.visible = np.pad(self.visible, ((0, 0), (0, 0), (0, PAGE_SLOTS)))


def pages_for(slots: int) -> int:
    """Return the number of pages that hold some slots of a sentence."""
    return -(-slots // PAGE_SLOTS)


def step_inputs(
    config: TransformerConfig,
    live: LiveHypotheses,
    position: int,
    slots: npt.NDArray[np.int64],
    visible: npt.NDArray[np.bool_],
) -> dict[str, npt.NDArray[np.generic]]:
    """Return the inputs of a step for sentences at the same position, except keys and values.

    Args:
        position: Position of their last tokens.
        slots: Slots that the hypotheses of each sentence write to, [batch, beam].
        visible: True at the slots that each hypothesis sees, [batch, beam, slot].
    """
    batch, beam = live.token_ids.shape
    table, owners = page_inputs(batch, visible.shape[2] // PAGE_SLOTS)
    page, head = np.take_along_axis(table, slots // PAGE_SLOTS, 1)[..., None], np.arange(config.num_heads)
    indices = np.broadcast_arrays(page, head, slots[..., None] % PAGE_SLOTS)
    no_edits = np.zeros((batch, beam, 0))
    return {
        "token_ids": live.token_ids,
        "positions": np.full((batch, 1), position, dtype=np.int64),
        "scores": live.scores,
        "slot_indices": np.stack(indices, axis=-1),
        "page_table": table,
        "page_owners": owners,
        "visible": visible,
        "candidate_count": np.array([2 * beam]),
        "edited_ids": no_edits.astype(np.int64),
        "edit_penalties": no_edits.astype(np.float32),
        "edit_biases": no_edits.astype(np.float32),
        # Without kernels onnxruntime cannot reshape tensors of no rows.
        "inspected_rows": np.zeros(1, dtype=np.int64),
        "required_ids": np.zeros((1, 0), dtype=np.int64),
    }


def page_inputs(batch: int, pages: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return page_table and page_owners of sentences that have equally many pages."""
    # The first pages of all sentences, then the second ones, so that more can follow.
    numbers = np.arange(batch * pages)
    return np.ascontiguousarray(numbers.reshape(pages, batch).T), np.stack(np.divmod(numbers, batch)[::-1], axis=1)


def first_hypotheses(batch: int, beam_size: int, bos_id: int) -> LiveHypotheses:
    """Return the hypotheses before the first step; only one of each sentence may be continued.

    Args:
        batch: Number of sentences.
        bos_id: Token that they begin with.
    """
    scores = np.full((batch, beam_size), DEAD_SCORE, dtype=np.float32)
    scores[:, 0] = 0.0
    return LiveHypotheses(
        np.full((batch, beam_size), bos_id, dtype=np.int64), scores, np.tile(np.arange(beam_size), (batch, 1))
    )


def tensor(array: npt.NDArray[np.generic]) -> onnxruntime.OrtValue:
    """Return an array as onnxruntime takes it."""
    return onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array))
