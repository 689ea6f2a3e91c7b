"""Tensors of a safetensors file, mapped into memory."""

from __future__ import annotations

import json
import mmap
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor

_DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


class MappedTensors:
    """Tensors that lie in a file: what is not touched takes no memory, and what was touched can be given back."""

    def __init__(self, path: Path) -> None:
        """Map a file.

        Args:
            path: A safetensors file of floats. It may be replaced meanwhile, but not changed in place.

        Raises:
            SafetensorError: The file is damaged.
            OSError: The file cannot be read.
            ValueError: A tensor is of another type.
        """
        # Finds every damage of the header.
        with safe_open(path, framework="pt"), path.open("rb") as file:
            header_bytes = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(header_bytes))
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        header.pop("__metadata__", None)
        self.tensors = {name: self._tensor(name, entry, 8 + header_bytes) for name, entry in header.items()}
        """Tensors by name; a change of one stays in this process."""

    def release(self) -> None:
        """Give back the memory of the pages that were read; tensors that were changed are as in the file again."""
        self._map.madvise(mmap.MADV_DONTNEED)

    def _tensor(self, name: str, entry: dict[str, object], first: int) -> Tensor:
        dtype, shape = _DTYPES.get(str(entry["dtype"])), torch.Size(entry["shape"])  # type: ignore[arg-type]
        if dtype is None:
            raise ValueError(f"{name} is of type {entry['dtype']}, not of floats")
        if not shape.numel():
            return torch.empty(shape, dtype=dtype)
        offset = first + entry["data_offsets"][0]  # type: ignore[index]
        return torch.frombuffer(self._map, dtype=dtype, count=shape.numel(), offset=offset).view(shape)
