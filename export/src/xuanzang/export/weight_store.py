"""Weights of graphs in a scratch file, so that building takes memory for a block of one matrix only."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, helper

MIN_BYTES = 1024
"""Minimum size of a weight. Smaller ones stay in the graph: onnxruntime looks at shapes and scalars."""
ALIGNMENT = 64
"""Weights begin at multiples of this many bytes, a cache line and the widest vector register."""
_BLOCK_BYTES = 64 << 20
_SCRATCH_FILE = "weights.scratch"

Array = npt.NDArray[Any]


class RowBlocks(NamedTuple):
    """A matrix that is computed by blocks of rows."""

    shape: tuple[int, ...]
    rows: Callable[[int, int], Array]
    """Function from the first row and the one after the last to the rows."""

    def whole(self) -> Array:
        """Return the matrix."""
        return self.rows(0, self.shape[0])

    def blocks(self, dtype: npt.DTypeLike) -> Iterator[Array]:
        """Yield the matrix in blocks of some megabytes, contiguous."""
        row_bytes = max(1, int(np.prod(self.shape[1:])) * np.dtype(dtype).itemsize)
        step = max(1, _BLOCK_BYTES // row_bytes)
        for start in range(0, self.shape[0], step):
            yield np.ascontiguousarray(self.rows(start, min(start + step, self.shape[0])), dtype)


def row_blocks(array: Array) -> RowBlocks:
    """Return an array as blocks of rows."""
    return RowBlocks(array.shape, lambda start, stop: array[start:stop])


class WeightStore:
    """Weights in a file of a folder, each different one once."""

    def __init__(self, folder: Path) -> None:
        """Begin an empty file.

        Args:
            folder: Folder for it, with room for the weights of all graphs.
        """
        self.folder = folder
        self._file = (folder / _SCRATCH_FILE).open("w+b")
        self._offsets: dict[bytes, int] = {}

    def add(self, name: str, value: RowBlocks, dtype: npt.DTypeLike) -> TensorProto:
        """Write a weight unless an equal one is there.

        Args:
            dtype: Type to write it in.

        Returns:
            Tensor that refers to the file.
        """
        start = self._file.seek(0, 2)
        offset = start + -start % ALIGNMENT
        self._file.seek(offset)
        digest = hashlib.sha256()
        for block in value.blocks(dtype):
            data = block.reshape(-1).view(np.uint8).data
            digest.update(data)
            self._file.write(data)
        length = self._file.tell() - offset
        known = self._offsets.setdefault(digest.digest(), offset)
        if known != offset:
            self._file.truncate(start)
        self._file.flush()
        tensor = TensorProto(name=name, data_type=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), dims=value.shape)
        refer(tensor, _SCRATCH_FILE, known, length)
        return tensor

    def digest(self, tensor: TensorProto) -> bytes:
        """Return the SHA-256 of a tensor of this store."""
        offset, _ = span_of(tensor)
        return next(digest for digest, known in self._offsets.items() if known == offset)

    def read(self, tensor: TensorProto) -> Iterator[bytes]:
        """Yield the bytes of a tensor of this store, in blocks."""
        offset, left = span_of(tensor)
        self._file.seek(offset)
        while left > 0:
            block = self._file.read(min(left, _BLOCK_BYTES))
            left -= len(block)
            yield block

    def close(self) -> None:
        """Close the file; the folder's owner deletes it."""
        self._file.close()


def refer(tensor: TensorProto, file: str, offset: int, length: int) -> None:
    """Let a tensor be a span of a file, instead of holding its bytes."""
    tensor.ClearField("raw_data")
    del tensor.external_data[:]
    for key, value in {"location": file, "offset": offset, "length": length}.items():
        tensor.external_data.add(key=key, value=str(value))
    tensor.data_location = TensorProto.EXTERNAL


def is_external(tensor: TensorProto) -> bool:
    """Return whether a tensor is a span of a file."""
    return bool(tensor.data_location == TensorProto.EXTERNAL)


def span_of(tensor: TensorProto) -> tuple[int, int]:
    """Return offset and length of a tensor that is a span of a file."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    return int(entries["offset"]), int(entries["length"])
