"""Types of the engine's arrays, and how these grow and shrink."""

from __future__ import annotations

from typing import NamedTuple, Self, TypeVar

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]

# numpy keeps this number of freed blocks of each size below this one, in bytes, for the next array.
_KEPT_BLOCKS, _KEPT_BYTES = 7, 1024

_Number = TypeVar("_Number", bound=np.generic)


class Order(NamedTuple):
    """Sentences of a batch that stay, in the order that they have from now on."""

    kept: Ints
    """Their batch indices so far, [batch]."""
    moved: Ints
    """New batch indices of the sentences that move."""

    @classmethod
    def of(cls, kept: Ints) -> Self:
        """Return the order of some batch indices."""
        return cls(kept, np.flatnonzero(kept != np.arange(len(kept))))

    def apply(self, array: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
        """Move what an array [batch, …] holds of these sentences to its beginning, and return that part of it."""
        if len(self.moved):
            array[self.moved] = array[self.kept[self.moved]]
        return array[: len(self.kept)]


def extended(array: npt.NDArray[_Number], more: int, *, axis: int = 0, value: int = 0) -> npt.NDArray[_Number]:
    """Return an array with more elements, if above 0, at its end: what numpy.pad does, in a tenth of its time."""
    if more <= 0:
        return array
    shape = list(array.shape)
    shape[axis] = more
    return np.concatenate([array, np.full(shape, value, dtype=array.dtype)], axis=axis)


def take_small_blocks() -> None:
    """Let numpy take all the blocks that it will ever keep for small arrays, side by side: 3.7 MB.

    Batches change their sizes with every sentence, so it would go on to take blocks of new sizes for hours, each
    between other things, which then cannot be given back around it.
    """
    for size in range(1, _KEPT_BYTES):
        # All exist before the first is freed.
        _ = [np.empty(size, np.uint8) for _ in range(_KEPT_BLOCKS)]
