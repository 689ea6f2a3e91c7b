"""Keys and values of a running batch, in slots that are reused, written in place by the decoder graph.

The hypotheses of a sentence share its slots: each holds key and value of one token, and `visible` says which slots a
hypothesis may see. A change of hypotheses rearranges a few booleans and copies no key or value. A slot that no living
hypothesis sees is free again, so that a sentence needs about as many slots as its translation has tokens, not as many
as all its hypotheses together. Slots come in pages, each of one sentence, so that a sentence has as many as it needs,
however long its neighbours are. A sentence that comes takes the place of one that has left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from xuanzang.server.engine.arrays import Array, Ints, extended
from xuanzang.server.engine.pages import PageTable
from xuanzang.server.engine.store import Store

# Source positions are added in steps, because each step copies the memory of the batch, and given back when that takes
# away at least so many.
_SOURCE_CHUNK = 8
_LEAST_SOURCE_CUT = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheShape:
    """What a decoder graph keeps for each sentence."""

    past_names: tuple[str, ...]
    """Graph inputs of self-attention, [page, heads, slot, head]."""
    memory_names: tuple[str, ...]
    """Graph inputs of cross-attention, [batch, heads, source, head]."""
    num_heads: int
    d_head: int
    page_slots: int
    """Slots of a page."""
    dtype: npt.DTypeLike


class Cache:
    """Slots and encoder memory of a batch of sentences with the same beam size."""

    def __init__(self, shape: CacheShape, beam_size: int) -> None:
        """Start without sentences.

        Args:
            shape: Of the graph's inputs.
            beam_size: Hypotheses of each sentence.
        """
        self._beam_size = beam_size
        self._page_slots = shape.page_slots
        self._hypotheses = np.arange(beam_size)
        self._heads = np.arange(shape.num_heads)
        size = {"num_heads": shape.num_heads, "d_head": shape.d_head}
        self._past = Store(shape.past_names, **size, dtype=shape.dtype)
        self._memory = Store(shape.memory_names, **size, dtype=shape.dtype)
        self._pages = PageTable()
        self._source_lengths = np.zeros(0, dtype=np.int64)
        self._source_mask = np.zeros((0, 0), dtype=bool)
        self._visible = np.zeros((0, beam_size, 0), dtype=bool)
        self._slot_indices = np.zeros((0, beam_size, shape.num_heads, 3), dtype=np.int64)
        self.inputs: dict[str, Array] = {}
        """Of the decoder graph, by name; changed in place by `advance` where it can be."""
        self.outputs: dict[str, Array] = {}
        """Where the graph writes: the same arrays as its inputs."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory held for keys and values."""
        return self._past.nbytes + self._memory.nbytes

    @property
    def sources(self) -> int:
        """Source positions of the memory."""
        return self._memory.columns

    @property
    def pages(self) -> int:
        """Pages of all sentences together, and some that are free."""
        return self._past.count

    def join(self, rows: Ints, memory: Mapping[str, Array], source_lengths: Ints) -> None:
        """Take in sentences.

        Args:
            rows: Of each: places that others have left, or the next ones.
            memory: Of the encoder, by the names of the decoder's inputs; copied.
            source_lengths: [batch].
        """
        more = int(rows.max()) + 1 - len(self._source_lengths)
        self._source_lengths = extended(self._source_lengths, more)
        self._visible = extended(self._visible, more)
        self._source_lengths[rows] = source_lengths
        self._visible[rows] = False
        self._pages.join(rows)
        self._arrange()
        self._memory.fill(rows, memory)

    def select(self, order: Ints) -> None:
        """Keep only some sentences.

        Args:
            order: Rows, [batch]; row i comes from order[i], and none from a row that was overwritten before.
        """
        for row in np.flatnonzero(order != np.arange(len(order))).tolist():
            source = int(order[row])
            self._memory.copy_row(source, row, used=int(self._source_lengths[source]))
        self._source_lengths = self._source_lengths[order]
        self._visible = self._visible[order]
        self._pages.select(order)
        self._arrange()

    def advance(self, parents: Ints) -> None:
        """Make room for the next token of every hypothesis.

        Args:
            parents: Where each hypothesis stood before the last selection, [batch, beam].
        """
        rows = np.arange(len(parents))[:, None]
        inherited = self._visible[rows, parents]
        taken: npt.NDArray[np.bool_] = np.asarray(inherited.any(axis=1))  # [batch, slot]
        slots = self._lowest_free(taken)
        if taken[rows, slots].any():
            self._pages.widen()
            self._fit_visible()
            more = self._visible.shape[2] - taken.shape[1]
            inherited = extended(inherited, more, axis=2)
            slots = self._lowest_free(extended(taken, more, axis=1))
            self._expose()
        np.copyto(self._visible, inherited)
        self._visible[rows, self._hypotheses, slots] = True
        self._direct(rows, slots)

    def _direct(self, rows: Ints, slots: Ints) -> None:
        """Tell the graph where to write, [batch, beam]; sentences that need new pages get them."""
        places, inside = np.divmod(slots, self._page_slots)
        pages = self._pages.table[rows, places]
        if pages.min() < 0:
            missing, hypothesis = np.nonzero(pages < 0)
            self._pages.provide(missing, places[missing, hypothesis])
            self._past.resize(self._pages.count, self._page_slots, used=self._page_slots)
            self._expose()
            pages = self._pages.table[rows, places]
        self._slot_indices[..., 0] = pages[:, :, None]
        self._slot_indices[..., 2] = inside[:, :, None]

    def _lowest_free(self, taken: npt.NDArray[np.bool_]) -> Ints:
        """Return the slots to write to, [batch, beam]; taken ones where free ones are too few.

        Which they are depends on the sentence alone, not on how many slots the batch has.
        """
        return np.argsort(taken, axis=1, kind="stable")[:, : self._beam_size]

    def _arrange(self) -> None:
        """Bring everything to the sentences that there are, and to the longest of them."""
        for page, target in self._pages.tidy():
            self._past.copy_row(page, target, used=self._page_slots)
        self._past.resize(self._pages.count, self._page_slots, used=self._page_slots)
        count, longest = len(self._source_lengths), int(self._source_lengths.max(initial=1))
        sources = -(-longest // _SOURCE_CHUNK) * _SOURCE_CHUNK
        if 0 <= self.sources - sources < _LEAST_SOURCE_CUT:
            sources = self.sources
        self._memory.resize(count, sources, used=longest)
        self._source_mask = np.arange(sources) < self._source_lengths[:, None]
        self._fit_visible()
        if len(self._slot_indices) != count:
            self._slot_indices = np.zeros((count, self._beam_size, len(self._heads), 3), dtype=np.int64)
            self._slot_indices[..., 1] = self._heads
        self._expose()

    def _fit_visible(self) -> None:
        slots = self._pages.table.shape[1] * self._page_slots
        kept = extended(self._visible[:, :, :slots], slots - self._visible.shape[2], axis=2)
        self._visible = np.ascontiguousarray(kept)

    def _expose(self) -> None:
        past = self._past.tensors()
        own = {
            "page_table": self._pages.table,
            "page_places": self._pages.places,
            "visible": self._visible,
            "slot_indices": self._slot_indices,
            "source_mask": self._source_mask,
        }
        self.inputs = {**past, **self._memory.tensors(), **own}
        self.outputs = {name.replace("past", "present", 1): tensor for name, tensor in past.items()}
