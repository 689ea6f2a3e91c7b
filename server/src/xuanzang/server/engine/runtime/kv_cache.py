"""The state of a running batch between steps: keys and values of the sources, and the memory of the targets.

Keys and values of the source lie in pages, each of one sentence, so that a sentence has as many as it needs, however
long its neighbours are; the encoder writes them in place. A sentence that joins or leaves changes a few numbers in the
page tables, and nothing else moves. For the targets a decoder keeps keys and values (`target_slots.py`) or states
(`recurrent_states.py`).
"""

from __future__ import annotations

import numpy as np

from xuanzang.kernels.step_functions import StepFunctions
from xuanzang.kernels.steps import SlotArrays
from xuanzang.server.engine.arrays import Ints, Order, extended
from xuanzang.server.engine.runtime.pages import PagePool, PageTable
from xuanzang.server.engine.runtime.recurrent_states import RecurrentStates
from xuanzang.server.engine.runtime.shapes import CacheShape, GraphTensors
from xuanzang.server.engine.runtime.target_slots import TargetSlots


class KeyValueCache:
    """Memory of a batch of sentences with the same beam size."""

    def __init__(self, shape: CacheShape, beam_size: int, *, functions: StepFunctions | None = None) -> None:
        """Start without sentences; with functions of the kernels, they do the same as numpy faster."""
        self._target = (
            RecurrentStates(shape, beam_size)
            if shape.state_names
            else TargetSlots(shape, beam_size, functions=functions)
        )
        self._page_slots = shape.page.slots
        self._cross = PagePool(shape.cross_names, shape.page, dtype=shape.dtype, device=shape.device)
        self._source_pages = PageTable()
        self._source_lengths = np.zeros(0, dtype=np.int64)
        self._target_tensors = self._target.tensors
        self.rows = ("source_lengths", "source_page_table", *self._target.rows)
        """Names of the decoder's inputs and outputs with a row for each sentence."""
        self.advance_slots = self._target.advance_slots
        """Bookkeeping of the targets' slots by the kernels; None without kernels or slots."""
        self.decoder_tensors = GraphTensors({}, {})
        """Arrays are changed in place by `advance` where possible; otherwise this is replaced."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory held for keys, values and states."""
        return self._target.nbytes + self._cross.nbytes

    @property
    def source_slots(self) -> int:
        """Slots of the source of each sentence."""
        return self._source_pages.width * self._page_slots

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
        self._target.join(indices)
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
        self._target.leave(indices)
        self._source_pages.release(indices)

    def trim(self) -> None:
        """Give back the memory that the sentences do not need; call it after `select` only."""
        self._target.trim()
        moves = self._source_pages.compact()
        self._cross.resize(self._source_pages.count, moves)
        self._cross.trim()
        self._expose()

    def select(self, order: Order) -> None:
        """Keep only some sentences, in the order given."""
        self._target.select(order)
        moves = self._source_pages.select(order)
        self._cross.resize(self._source_pages.count, moves)
        self._source_lengths = order.apply(self._source_lengths)
        self._expose()

    def advance(self, parents: Ints) -> None:
        """Make room for the next token of hypotheses, which had beam positions [batch, beam] before the last step."""
        self._target.advance(parents)
        if self._target.tensors is not self._target_tensors:
            self._expose()

    def reorder(self, order: Order) -> None:
        """Record that sentences have changed places in the arrays of `rows`; all stay."""
        self._target.reorder(order)
        self._source_pages.own(order.moved)

    def slots(self, parents: Ints) -> SlotArrays | None:
        """Return the arrays of a step as the kernels take them; None without slots."""
        return self._target.slots(parents) if isinstance(self._target, TargetSlots) else None

    def _expose(self) -> None:
        """Replace the tensors of the decoder graph."""
        self._target_tensors = self._target.tensors
        source = {
            "source_lengths": self._source_lengths,
            "source_page_table": self._source_pages.table,
            "source_page_owners": self._source_pages.owners,
        }
        inputs, outputs = self._target_tensors
        self.decoder_tensors = GraphTensors({**inputs, **self._cross.tensors, **source}, outputs)
