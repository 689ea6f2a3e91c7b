"""Keys and values of a running batch, in slots that are reused, written in place by the graphs.

The hypotheses of a sentence share its slots: each holds key and value of one token, and `visible` says which slots a
hypothesis may see. A change of hypotheses rearranges a few booleans and copies no key or value. A slot that no live
hypothesis sees is free again, so that a sentence needs about as many slots as its translation has tokens, not as many
as all its hypotheses together. Slots come in pages, each of one sentence, so that a sentence has as many as it needs,
however long its neighbours are; so do the keys and values of the source. A sentence that joins or leaves changes a few
numbers in the page tables, and nothing else moves.

Source: PagedAttention, Kwon et al. 2023, arXiv:2309.06180.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xuanzang.kernels.step_functions import StepFunctions
from xuanzang.kernels.steps import AdvanceSlots, SlotArrays
from xuanzang.server.engine.arrays import Ints, Order, extended
from xuanzang.server.engine.runtime.pages import PagePool, PageShape, PageTable, Tensor

SENTENCE_INPUTS = ("page_table", "visible", "slot_indices", "source_lengths", "source_page_table")
"""Decoder inputs with a row for each sentence."""


class GraphTensors(NamedTuple):
    """Inputs and outputs of a graph, by their names in it."""

    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]
    """Partly the same tensors: the graph works in place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheShape:
    """Keys and values that the graphs keep for each sentence."""

    past_names: tuple[str, ...]
    """Decoder inputs of self-attention, [page, heads, slot, head]."""
    cross_names: tuple[str, ...]
    """Decoder inputs of cross-attention, of the same dimensions."""
    page: PageShape
    dtype: npt.DTypeLike
    device: str
    """"cpu" or "cuda"."""

    def bytes_needed(self, beam_size: int, *, source_tokens: int, target_tokens: int) -> int:
        """Return the bytes that a sentence adds to the pools of its batch at most.

        In the worst case no two hypotheses share a slot. Among sentences that are encoded together a fifth of the
        positions may be padding (`decoding/decoder.py`), and `PageTable` makes one spare page for four. Such sums bound
        the sums of what sentences take, not what each takes.
        """
        slots, page = self.page.slots, math.prod(self.page) * np.dtype(self.dtype).itemsize
        past = -(-beam_size * target_tokens // slots) * len(self.past_names)
        cross = (-(-source_tokens * 5 // (4 * slots)) + 1) * len(self.cross_names)
        return -(-(past + cross) * page * 5 // 4)


class KeyValueCache:
    """Slots of the targets and sources of a batch of sentences with the same beam size."""

    def __init__(self, shape: CacheShape, beam_size: int, *, functions: StepFunctions | None = None) -> None:
        self.advance_slots = AdvanceSlots(functions, page_slots=shape.page.slots) if functions else None
        """Bookkeeping of the slots by the kernels; None without."""
        self._beam_size = beam_size
        self._page_slots = shape.page.slots
        self._beam_positions = np.arange(beam_size)
        self._heads = np.arange(shape.page.num_heads)
        self._past = PagePool(shape.past_names, shape.page, dtype=shape.dtype, device=shape.device)
        self._cross = PagePool(shape.cross_names, shape.page, dtype=shape.dtype, device=shape.device)
        self._pages, self._source_pages = PageTable(), PageTable()
        self._source_lengths = np.zeros(0, dtype=np.int64)
        self._visible = np.zeros((0, beam_size, self._slots), dtype=bool)
        self._slot_indices = np.zeros((0, beam_size, shape.page.num_heads, 3), dtype=np.int64)
        self.decoder_tensors = GraphTensors({}, {})
        """Arrays are changed in place by `advance` where possible; otherwise this is replaced."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory held for keys and values."""
        return self._past.nbytes + self._cross.nbytes

    @property
    def source_slots(self) -> int:
        """Slots of the source of each sentence."""
        return self._source_pages.width * self._page_slots

    @property
    def _slots(self) -> int:
        """Slots of the target of each sentence."""
        return self._pages.width * self._page_slots

    def join(self, indices: Ints, source_lengths: Ints, *, padded: int = 0) -> GraphTensors:
        """Take in sentences at batch indices, of sentences that have left or the next ones.

        Args:
            source_lengths: Source tokens of each, [batch].
            padded: Source positions that the encoder writes for each at least.

        Returns:
            Inputs and outputs of the encoder for the keys and values of these sentences.
        """
        more = int(indices.max()) + 1 - len(self._source_lengths)
        self._source_lengths = extended(self._source_lengths, more)
        self._source_lengths[indices] = source_lengths
        self._visible = extended(self._visible, more)
        self._visible[indices] = False
        if len(self._slot_indices) != len(self._source_lengths):
            shape = (len(self._source_lengths), self._beam_size, len(self._heads), 3)
            self._slot_indices = np.zeros(shape, dtype=np.int64)
            self._slot_indices[..., 1] = self._heads
        self._pages.join(indices)
        self._source_pages.join(indices)
        widths = -(-np.maximum(source_lengths, padded) // self._page_slots)
        self._source_pages.widen(int(widths.max()))
        entries = np.arange(widths.sum()) - np.repeat(np.cumsum(widths) - widths, widths)
        self._source_pages.provide(np.repeat(indices, widths), entries)
        self._cross.resize(self._source_pages.count)
        self._expose()
        own = {"source_lengths": source_lengths, "source_page_table": self._source_pages.table[indices]}
        past = {f"past_{name}": tensor for name, tensor in self._cross.tensors.items()}
        present = {f"present_{name}": tensor for name, tensor in self._cross.tensors.items()}
        return GraphTensors({**own, **past}, present)

    def leave(self, indices: Ints) -> None:
        """Free the pages of sentences that have left, before others join and `select` closes the gaps."""
        for pages in (self._pages, self._source_pages):
            pages.release(indices)

    def trim(self) -> None:
        """Give back the memory that the sentences do not need; call it after `select` only."""
        for pages, pool in ((self._pages, self._past), (self._source_pages, self._cross)):
            moves = pages.compact()
            pool.resize(pages.count, moves)
            pool.trim()
        self._expose()

    def select(self, order: Order) -> None:
        """Keep only some sentences, in the order given."""
        moves, source_moves = self._pages.select(order), self._source_pages.select(order)
        self._past.resize(self._pages.count, moves)
        self._cross.resize(self._source_pages.count, source_moves)
        self._source_lengths = order.apply(self._source_lengths)
        # Copied only if sentences have fewer slots from now on.
        self._visible = np.ascontiguousarray(order.apply(self._visible)[:, :, : self._slots])
        # Its content is written in each step, except the heads, which are the same for all sentences.
        self._slot_indices = self._slot_indices[: len(order.kept)]
        self._expose()

    def advance(self, parents: Ints) -> None:
        """Make room for the next token of hypotheses, which had beam positions [batch, beam] before the last step."""
        indices = np.arange(len(parents))[:, None]
        if self.advance_slots:
            missing = self.advance_slots(self.slots(parents))
            if missing:
                self._point_to(indices, self.advance_slots.chosen)
            if missing is not None:
                return
        inherited = self._visible[indices, parents]
        taken: npt.NDArray[np.bool_] = np.asarray(inherited.any(axis=1))  # [batch, slot]
        slots = self._lowest_free(taken)
        if taken[indices, slots].any():
            self._pages.widen(self._pages.width + 1)
            more = self._slots - taken.shape[1]
            self._visible, inherited = extended(self._visible, more, axis=2), extended(inherited, more, axis=2)
            slots = self._lowest_free(extended(taken, more, axis=1))
            self._expose()
        np.copyto(self._visible, inherited)
        self._visible[indices, self._beam_positions, slots] = True
        self._point_to(indices, slots)

    def reorder(self, order: Order) -> None:
        """Record that sentences have changed places in the arrays of `SENTENCE_INPUTS`; all stay."""
        for pages in (self._pages, self._source_pages):
            pages.own(order.moved)

    def slots(self, parents: Ints) -> SlotArrays:
        """Return the arrays of a step as the kernels take them."""
        pages = self._pages
        free = pages.free, pages.free_count
        return SlotArrays(parents, self._visible, pages.table, pages.owners, *free, self._slot_indices)

    def _point_to(self, indices: Ints, slots: Ints) -> None:
        """Set the slots to write, [batch, beam]; sentences that need new pages get them."""
        logical_pages, within = np.divmod(slots, self._page_slots)
        pages = self._pages.table[indices, logical_pages]
        if pages.min() < 0:
            missing, beam_positions = np.nonzero(pages < 0)
            self._pages.provide(missing, logical_pages[missing, beam_positions])
            if self._pages.count != self._past.count:
                self._past.resize(self._pages.count)
                self._expose()
            pages = self._pages.table[indices, logical_pages]
        self._slot_indices[..., 0] = pages[:, :, None]
        self._slot_indices[..., 2] = within[:, :, None]

    def _lowest_free(self, taken: npt.NDArray[np.bool_]) -> Ints:
        """Return the slots to write, [batch, beam]; taken ones where free ones are too few.

        They depend on the sentence alone, not on how many slots the batch has.
        """
        return np.argsort(taken, axis=1, kind="stable")[:, : self._beam_size]

    def _expose(self) -> None:
        """Replace the tensors of the decoder graph."""
        past = self._past.tensors
        own = {
            "page_table": self._pages.table,
            "page_owners": self._pages.owners,
            "visible": self._visible,
            "slot_indices": self._slot_indices,
            "source_lengths": self._source_lengths,
            "source_page_table": self._source_pages.table,
            "source_page_owners": self._source_pages.owners,
        }
        self.decoder_tensors = GraphTensors(
            {**past, **self._cross.tensors, **own},
            {name.replace("past", "present", 1): tensor for name, tensor in past.items()},
        )
