"""Keys and values of a running batch, in slots that are reused, written in place by the decoder graph.

The hypotheses of a sentence share its slots: each holds key and value of one token, and `visible` says which slots a
hypothesis may see. A change of hypotheses rearranges a few booleans and copies no key or value. A slot that no living
hypothesis sees is free again, so that a sentence needs about as many slots as its translation has tokens, not as many
as all its hypotheses together. A sentence that comes takes the place of one that has left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from xuanzang.server.engine.arrays import Array, Ints
from xuanzang.server.engine.store import Store

# Slots and source positions are added in steps, because each step copies the cache of the batch.
_SLOTS_CHUNK = 32
_SOURCE_CHUNK = 8
# A translation is expected to need this many slots per source token, and some for what its hypotheses do not share; but
# few are taken before they are needed, since attention looks at all slots of a batch.
_SLOTS_PER_SOURCE_TOKEN = 1.25
_MOST_SLOTS_AT_ONCE = 64
# They are given back when that takes away at least this many.
_LEAST_CUT = 32
_LEAST_SOURCE_CUT = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheShape:
    """What a decoder graph keeps for each sentence."""

    past_names: tuple[str, ...]
    """Graph inputs of self-attention, [batch, heads, slot, head]."""
    memory_names: tuple[str, ...]
    """Graph inputs of cross-attention, [batch, heads, source, head]."""
    num_heads: int
    d_head: int
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
        self._places = np.arange(beam_size)
        self._heads = np.arange(shape.num_heads)
        size = {"num_heads": shape.num_heads, "d_head": shape.d_head}
        self._past = Store(shape.past_names, **size, dtype=shape.dtype)
        self._memory = Store(shape.memory_names, **size, dtype=shape.dtype)
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
    def slots(self) -> int:
        """Slots of each sentence."""
        return self._past.columns

    def join(self, rows: Ints, memory: Mapping[str, Array], source_lengths: Ints) -> None:
        """Take in sentences.

        Args:
            rows: Of each: places that others have left, or the next ones.
            memory: Of the encoder, by the names of the decoder's inputs; copied.
            source_lengths: [batch].
        """
        count = len(self._source_lengths)
        more = int(rows.max()) + 1 - count
        if more > 0:
            self._source_lengths = np.concatenate([self._source_lengths, np.zeros(more, dtype=np.int64)])
            new_rows = np.zeros((more, self._beam_size, self._visible.shape[2]), dtype=bool)
            self._visible = np.concatenate([self._visible, new_rows])
        self._source_lengths[rows] = source_lengths
        self._visible[rows] = False
        expected = int(_SLOTS_PER_SOURCE_TOKEN * source_lengths.max()) + 3 * self._beam_size
        self._fit(min(_chunked(expected, _SLOTS_CHUNK), _MOST_SLOTS_AT_ONCE))
        self._memory.fill(rows, memory)
        self._source_mask[rows] = np.arange(self.sources) < source_lengths[:, None]

    def select(self, order: Ints) -> None:
        """Keep only some sentences.

        Args:
            order: Rows, [batch]; row i comes from order[i], and none from a row that was overwritten before.
        """
        for row in np.flatnonzero(order != np.arange(len(order))).tolist():
            self._past.copy_row(int(order[row]), row)
            self._memory.copy_row(int(order[row]), row)
        self._source_lengths = self._source_lengths[order]
        self._visible = self._visible[order]
        self._fit(_SLOTS_CHUNK)

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
            more = _chunked(self.slots + self._beam_size, _SLOTS_CHUNK) - self.slots
            self._resize(self.slots + more)
            inherited = np.pad(inherited, ((0, 0), (0, 0), (0, more)))
            slots = self._lowest_free(np.pad(taken, ((0, 0), (0, more))))
        np.copyto(self._visible, inherited)
        self._visible[rows, self._places, slots] = True
        self._slot_indices[..., 2] = slots[:, :, None]

    def _lowest_free(self, taken: npt.NDArray[np.bool_]) -> Ints:
        """Return the slots to write to, [batch, beam]; taken ones where free ones are too few.

        Which they are depends on the sentence alone, not on how many slots the batch has.
        """
        return np.argsort(taken, axis=1, kind="stable")[:, : self._beam_size]

    def _fit(self, least: int) -> None:
        """Give back slots that are far more than what is used and at least wanted."""
        wanted = max(least, _chunked(self._used() + self._beam_size, _SLOTS_CHUNK))
        self._resize(wanted if wanted > self.slots or wanted <= self.slots - _LEAST_CUT else self.slots)

    def _used(self) -> int:
        """Return how many slots there must be for all that is seen by any hypothesis."""
        return 1 + int(np.flatnonzero(self._visible.any(axis=(0, 1))).max(initial=-1))

    def _resize(self, slots: int) -> None:
        """Bring everything to a number of slots, and to the sentences and source positions that there are."""
        count = len(self._source_lengths)
        longest = int(self._source_lengths.max(initial=1))
        sources = _chunked(longest, _SOURCE_CHUNK)
        if 0 <= self.sources - sources < _LEAST_SOURCE_CUT:
            sources = self.sources
        if (self._past.count, self.slots, self.sources) == (count, slots, sources):
            return
        self._past.resize(count, slots, used=self._used())
        self._memory.resize(count, sources, used=longest)
        if slots != self._visible.shape[2]:
            visible = np.zeros((count, self._beam_size, slots), dtype=bool)
            kept = min(slots, self._visible.shape[2])
            visible[:, :, :kept] = self._visible[:, :, :kept]
            self._visible = visible
        self._source_mask = np.arange(sources) < self._source_lengths[:, None]
        self._slot_indices = np.zeros((count, self._beam_size, len(self._heads), 3), dtype=np.int64)
        self._slot_indices[..., 0] = np.arange(count)[:, None, None]
        self._slot_indices[..., 1] = self._heads
        self._expose()

    def _expose(self) -> None:
        past = self._past.tensors()
        own = {"visible": self._visible, "slot_indices": self._slot_indices, "source_mask": self._source_mask}
        self.inputs = {**past, **self._memory.tensors(), **own}
        self.outputs = {name.replace("past", "present", 1): tensor for name, tensor in past.items()}


def _chunked(count: int, chunk: int) -> int:
    return -(-count // chunk) * chunk
