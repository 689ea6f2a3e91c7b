"""Tensors of one shape whose sentences and columns come and go, in memory that stays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from xuanzang.server.engine.arrays import Array, Ints

# Memory grows by at least this factor, so that a batch that grows sentence by sentence seldom copies.
_GROWTH = 1.5


class Store:
    """Some tensors [batch, heads, column, head] side by side.

    Fresh memory is slow: the system hands it over page by page. So the tensors live at the start of arrays that are
    kept. When the number of columns changes, each tensor moves into a spare array and leaves its own to the next one.
    What no sentence has written yet is 0 or left over from another; it is finite, which is all that a hidden column
    must be.
    """

    def __init__(self, names: Sequence[str], *, num_heads: int, d_head: int, dtype: npt.DTypeLike) -> None:
        """Start without sentences and columns."""
        self._num_heads, self._d_head = num_heads, d_head
        self._flat = {name: np.zeros(0, dtype=dtype) for name in names}
        self._spare: Array = np.zeros(0, dtype=dtype)
        self._tensors: dict[str, Array] = {}
        self.count = 0
        """Sentences."""
        self.columns = 0

    @property
    def nbytes(self) -> int:
        """Bytes of memory held."""
        return self._spare.nbytes + sum(flat.nbytes for flat in self._flat.values())

    def tensors(self) -> dict[str, Array]:
        """Return the tensors by name: the same arrays until `resize` changes something."""
        if not self._tensors:
            self._tensors = {name: self._view(flat, self.count, self.columns) for name, flat in self._flat.items()}
        return self._tensors

    def resize(self, count: int, columns: int, *, used: int) -> None:
        """Change the number of sentences and columns; the last ones go, new ones are at the end.

        Args:
            count: Sentences.
            columns: Of each.
            used: Columns whose content counts; the others are anything finite afterwards.
        """
        if (count, columns) == (self.count, self.columns):
            return
        kept = min(count, self.count)
        used = min(used, columns, self.columns)
        size = self._size(count, columns)
        if any(flat.size < size for flat in self._flat.values()):
            self._spare = np.zeros(0, dtype=self._spare.dtype)
            self._flat = {
                name: self._moved(flat, np.zeros(int(size * _GROWTH), dtype=flat.dtype), kept, columns, used)
                for name, flat in self._flat.items()
            }
        elif kept and columns != self.columns:
            for name, flat in self._flat.items():
                if self._spare.size < flat.size:
                    self._spare = np.zeros(flat.size, dtype=flat.dtype)
                self._flat[name], self._spare = self._moved(flat, self._spare, kept, columns, used), flat
        self.count, self.columns = count, columns
        self._tensors = {}

    def copy_row(self, source: int, target: int, *, used: int) -> None:
        """Overwrite a sentence with another.

        Args:
            source: Row that is read.
            target: Row that is written.
            used: Columns whose content counts.
        """
        for tensor in self.tensors().values():
            tensor[target, :, :used] = tensor[source, :, :used]

    def fill(self, rows: Ints, values: Mapping[str, Array]) -> None:
        """Write the first columns of some sentences.

        Args:
            rows: Of the sentences.
            values: By name, [batch, heads, column, head].
        """
        for name, tensor in self.tensors().items():
            fresh = values[name]
            for row, columns in zip(rows.tolist(), fresh, strict=True):
                tensor[row, :, : fresh.shape[2]] = columns

    def _size(self, count: int, columns: int) -> int:
        return count * self._num_heads * columns * self._d_head

    def _view(self, flat: Array, count: int, columns: int) -> Array:
        return flat[: self._size(count, columns)].reshape(count, self._num_heads, columns, self._d_head)

    def _moved(self, source: Array, target: Array, kept: int, columns: int, used: int) -> Array:
        self._view(target, kept, columns)[:, :, :used] = self._view(source, kept, self.columns)[:, :, :used]
        return target
