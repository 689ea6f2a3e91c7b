"""Keys and values of a running batch, in slots that are reused, written in place by the graphs.

The hypotheses of a sentence share its slots: each holds key and value of one token, and `visible` says which slots a
hypothesis may see. A change of hypotheses rearranges a few booleans and copies no key or value. A slot that no living
hypothesis sees is free again, so that a sentence needs about as many slots as its translation has tokens, not as many
as all its hypotheses together. Slots come in pages, each of one sentence, so that a sentence has as many as it needs,
however long its neighbours are; so do the keys and values of the source. A sentence that comes or goes changes a few
numbers in the tables of pages, and nothing else moves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xuanzang.server.engine.arrays import Ints, extended
from xuanzang.server.engine.pages import PageTable
from xuanzang.server.engine.pool import PageShape, Pool, Value


class Tensors(NamedTuple):
    """What a graph is given and where it writes, by the names of the graph."""

    inputs: Mapping[str, Value]
    outputs: Mapping[str, Value]
    """Partly the same tensors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheShape:
    """What the graphs keep for each sentence."""

    past_names: tuple[str, ...]
    """Decoder inputs of self-attention, [page, heads, slot, head]."""
    cross_names: tuple[str, ...]
    """Decoder inputs of cross-attention, of the same dimensions."""
    page: PageShape
    dtype: npt.DTypeLike
    device: str
    """"cpu" or "cuda"."""


class Cache:
    """Slots of a batch of sentences with the same beam size, and of their sources."""

    def __init__(self, shape: CacheShape, beam_size: int) -> None:
        """Start without sentences.

        Args:
            shape: Of the graphs' inputs.
            beam_size: Hypotheses of each sentence.
        """
        self._beam_size = beam_size
        self._page_slots = shape.page.slots
        self._hypotheses = np.arange(beam_size)
        self._heads = np.arange(shape.page.num_heads)
        self._past = Pool(shape.past_names, shape.page, dtype=shape.dtype, device=shape.device)
        self._cross = Pool(shape.cross_names, shape.page, dtype=shape.dtype, device=shape.device)
        self._pages, self._source_pages = PageTable(), PageTable()
        self._source_lengths = np.zeros(0, dtype=np.int64)
        self._visible = np.zeros((0, beam_size, self._slots), dtype=bool)
        self._slot_indices = np.zeros((0, beam_size, shape.page.num_heads, 3), dtype=np.int64)
        self.decoder = Tensors({}, {})
        """Changed in place by `advance` where it can be."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory held for keys and values."""
        return self._past.nbytes + self._cross.nbytes

    @property
    def sources(self) -> int:
        """Slots of the source of each sentence."""
        return self._source_pages.width * self._page_slots

    @property
    def _slots(self) -> int:
        """Slots of the translation of each sentence."""
        return self._pages.width * self._page_slots

    def join(self, rows: Ints, source_lengths: Ints, *, padded: int) -> Tensors:
        """Take in sentences.

        Args:
            rows: Of each: places that others have left, or the next ones.
            source_lengths: [batch].
            padded: Positions of each that the encoder writes.

        Returns:
            What the encoder takes and gives to write these sentences' keys and values.
        """
        more = int(rows.max()) + 1 - len(self._source_lengths)
        self._source_lengths = extended(self._source_lengths, more)
        self._source_lengths[rows] = source_lengths
        self._visible = extended(self._visible, more)
        self._visible[rows] = False
        self._fit_slot_indices()
        self._pages.join(rows)
        self._source_pages.join(rows)
        places = -(-padded // self._page_slots)
        self._source_pages.widen(places)
        self._source_pages.provide(np.repeat(rows, places), np.tile(np.arange(places), len(rows)))
        self._cross.resize(self._source_pages.count)
        self._expose()
        own = {"source_lengths": source_lengths, "source_page_table": self._source_pages.table[rows]}
        past = {f"past_{name}": tensor for name, tensor in self._cross.tensors.items()}
        return Tensors({**own, **past}, {f"present_{name}": tensor for name, tensor in self._cross.tensors.items()})

    def select(self, order: Ints) -> None:
        """Keep only some sentences.

        Args:
            order: Rows, [batch]; row i comes from order[i].
        """
        moves, source_moves = self._pages.select(order), self._source_pages.select(order)
        self._past.resize(self._pages.count, moves)
        self._cross.resize(self._source_pages.count, source_moves)
        self._source_lengths = self._source_lengths[order]
        self._visible = np.ascontiguousarray(self._visible[order, :, : self._slots])
        self._fit_slot_indices()
        self._expose()

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
            self._pages.widen(self._pages.width + 1)
            more = self._slots - taken.shape[1]
            self._visible, inherited = extended(self._visible, more, axis=2), extended(inherited, more, axis=2)
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
            if self._pages.count != self._past.count:
                self._past.resize(self._pages.count)
                self._expose()
            pages = self._pages.table[rows, places]
        self._slot_indices[..., 0] = pages[:, :, None]
        self._slot_indices[..., 2] = inside[:, :, None]

    def _lowest_free(self, taken: npt.NDArray[np.bool_]) -> Ints:
        """Return the slots to write to, [batch, beam]; taken ones where free ones are too few.

        Which they are depends on the sentence alone, not on how many slots the batch has.
        """
        return np.argsort(taken, axis=1, kind="stable")[:, : self._beam_size]

    def _fit_slot_indices(self) -> None:
        count = len(self._source_lengths)
        if len(self._slot_indices) != count:
            self._slot_indices = np.zeros((count, self._beam_size, len(self._heads), 3), dtype=np.int64)
            self._slot_indices[..., 1] = self._heads

    def _expose(self) -> None:
        past = self._past.tensors
        own = {
            "page_table": self._pages.table,
            "page_owners": self._pages.places,
            "visible": self._visible,
            "slot_indices": self._slot_indices,
            "source_lengths": self._source_lengths,
            "source_page_table": self._source_pages.table,
            "source_page_owners": self._source_pages.places,
        }
        self.decoder = Tensors(
            {**past, **self._cross.tensors, **own},
            {name.replace("past", "present", 1): tensor for name, tensor in past.items()},
        )
