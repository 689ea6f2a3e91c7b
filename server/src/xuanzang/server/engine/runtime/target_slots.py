"""Keys and values of the targets of a batch, in slots that are reused, written in place by the decoder.

The hypotheses of a sentence share its slots: each holds key and value of one token, and `visible` says which slots a
hypothesis may see. A change of hypotheses rearranges a few booleans and copies no key or value. A slot that no live
hypothesis sees is free again, so that a sentence needs about as many slots as its translation has tokens, not as many
as all its hypotheses together. Slots come in pages, each of one sentence, so that a sentence has as many as it needs,
however long its neighbours are.

Source: PagedAttention, Kwon et al. 2023, arXiv:2309.06180.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from xuanzang.kernels.step_functions import StepFunctions
from xuanzang.kernels.steps import AdvanceSlots, SlotArrays
from xuanzang.server.engine.arrays import Ints, Order, extended
from xuanzang.server.engine.runtime.pages import PagePool, PageTable
from xuanzang.server.engine.runtime.shapes import CacheShape, GraphTensors


class TargetSlots:
    """Slots of the targets of a batch of sentences with the same beam size."""

    rows = ("page_table", "visible", "slot_indices")
    """Names of the decoder's inputs and outputs with a row for each sentence."""

    def __init__(self, shape: CacheShape, beam_size: int, *, functions: StepFunctions | None = None) -> None:
        """Start without sentences; with functions of the kernels, they do the same as numpy faster."""
        self.advance_slots = AdvanceSlots(functions, page_slots=shape.page.slots) if functions else None
        """Bookkeeping of the slots by the kernels; None without."""
        self._beam_size = beam_size
        self._page_slots = shape.page.slots
        self._beam_positions = np.arange(beam_size)
        self._heads = np.arange(shape.page.num_heads)
        self._past = PagePool(shape.past_names, shape.page, dtype=shape.dtype, device=shape.device)
        self._pages = PageTable()
        self._visible = np.zeros((0, beam_size, self._slots), dtype=bool)
        self._slot_indices = np.zeros((0, beam_size, shape.page.num_heads, 3), dtype=np.int64)
        self.tensors = GraphTensors({}, {})
        """Inputs of the decoder, changed in place by `advance` where possible; otherwise this is replaced."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory held for keys and values."""
        return self._past.nbytes

    @property
    def _slots(self) -> int:
        """Slots of each sentence."""
        return self._pages.width * self._page_slots

    def join(self, indices: Ints) -> None:
        """Take in sentences at batch indices, of sentences that have left or the next ones."""
        self._visible = extended(self._visible, int(indices.max()) + 1 - len(self._visible))
        self._visible[indices] = False
        if len(self._slot_indices) != len(self._visible):
            self._slot_indices = np.zeros((*self._visible.shape[:2], len(self._heads), 3), dtype=np.int64)
            self._slot_indices[..., 1] = self._heads
        self._pages.join(indices)
        self._expose()

    def leave(self, indices: Ints) -> None:
        """Free the pages of sentences that have left."""
        self._pages.release(indices)

    def trim(self) -> None:
        """Give back the memory that the sentences do not need; call it after `select` only."""
        moves = self._pages.compact()
        self._past.resize(self._pages.count, moves)
        self._past.trim()
        self._expose()

    def select(self, order: Order) -> None:
        """Keep only some sentences, in the order given."""
        moves = self._pages.select(order)
        self._past.resize(self._pages.count, moves)
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
        """Record that sentences have changed places in the arrays of `rows`; all stay."""
        self._pages.own(order.moved)

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
        past = self._past.tensors
        own = {
            "page_table": self._pages.table,
            "page_owners": self._pages.owners,
            "visible": self._visible,
            "slot_indices": self._slot_indices,
        }
        present = {name.replace("past", "present", 1): tensor for name, tensor in past.items()}
        self.tensors = GraphTensors({**past, **own}, present)
