"""Pages of keys and values of all layers, in memory of the device that computes with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from onnxruntime import OrtValue

from xuanzang.server.engine.arrays import Array

Value = Array | OrtValue
"""What a graph takes or gives: in the memory of the process, or of the device that computes."""


class PageShape(NamedTuple):
    """Of one page of one tensor, as the graphs have it."""

    num_heads: int
    slots: int
    d_head: int


class Pool:
    """Some tensors [page, heads, slot, head] side by side, which the graphs read and write in place.

    What nobody has written yet is 0 or left over from another sentence; it is finite, which is all that a hidden slot
    must be.
    """

    def __init__(self, names: Sequence[str], shape: PageShape, *, dtype: npt.DTypeLike, device: str = "cpu") -> None:
        """Start without pages.

        Args:
            names: Of the tensors.
            shape: Of a page.
            dtype: Type of keys and values.
            device: "cpu" or "cuda".
        """
        self._device = device
        # On a CPU what the tensors lie in, which may be more than they need; empty otherwise.
        self._arrays: dict[str, Array] = {}
        self.tensors: dict[str, OrtValue] = {}
        """By name; other ones after `resize`."""
        self.count = 0
        """Pages."""
        self._hold({name: np.zeros((0, *shape), dtype=dtype) for name in names})

    @property
    def nbytes(self) -> int:
        """Bytes of memory held."""
        if self._arrays:
            return sum(array.nbytes for array in self._arrays.values())
        return sum(tensor.tensor_size_in_bytes() for tensor in self.tensors.values())

    def resize(self, count: int, moves: Sequence[tuple[int, int]] = ()) -> None:
        """Change the number of pages; the last ones go, new ones are at the end.

        On a device with memory of its own everything goes through the host, which is why `PageTable` seldom asks.

        Args:
            count: Pages.
            moves: Pages whose content moves before that, and where to.
        """
        if count == self.count and not moves:
            return
        held = self._arrays or {name: tensor.numpy() for name, tensor in self.tensors.items()}
        for page, target in moves:
            for array in held.values():
                array[target] = array[page]
        if any(len(array) < count for array in held.values()):
            held = {name: self._grown(array, count) for name, array in held.items()}
        self.count = count
        self._hold(held)

    def _grown(self, array: Array, count: int) -> Array:
        grown = np.zeros((count, *array.shape[1:]), dtype=array.dtype)
        grown[: self.count] = array[: self.count]
        return grown

    def _hold(self, arrays: dict[str, Array]) -> None:
        if self._device == "cpu":
            self._arrays = arrays
        self.tensors = {
            name: OrtValue.ortvalue_from_numpy(array[: self.count], self._device) for name, array in arrays.items()
        }
