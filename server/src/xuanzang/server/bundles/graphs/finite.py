"""Check that the floats in a weights file are numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from xuanzang.server.bundles.files import FileError, open_regular

# `onnx.TensorProto.DataType` → type of the elements. Integers are always numbers.
_FLOATS: dict[int, np.dtype[Any]] = {1: np.dtype("<f4"), 10: np.dtype("<f2"), 11: np.dtype("<f8")}
# A multiple of every type's size.
_CHUNK_BYTES = 4 << 20
# Two tensors may share their bytes; a graph with a thousand over all of the file would be read for hours.
_MAX_READS = 4


class Span(NamedTuple):
    """Part of a weights file that a tensor consists of."""

    tensor: str
    data_type: int
    offset: int
    length: int


def float_faults(directory: Path, weights: str, size: int, spans: Collection[Span]) -> Iterator[str]:
    """Find floats that are infinite or not a number, which would spoil the translations of some sentences only.

    Args:
        directory: Folder of the bundle.
        weights: Name of the weights file.
        size: Its size, in bytes.
        spans: Parts of the file, all inside it.

    Yields:
        One sentence per fault.
    """
    # Graphs share tensors.
    floats = {span[1:]: span for span in spans if span.data_type in _FLOATS}.values()
    if sum(span.length for span in floats) > _MAX_READS * size:
        yield f"{weights}: the graphs have more than {_MAX_READS} tensors in the same bytes"
        return
    try:
        with open_regular(directory, weights) as file:
            for span in floats:
                if not _is_finite(file, span):
                    yield f"{weights}: {span.tensor!r} has elements that are not finite"
    except FileError as error:
        yield f"{weights} {error}"


def _is_finite(file: FileIO, span: Span) -> bool:
    file.seek(span.offset)
    left = span.length
    while left > 0:
        part = file.read(min(left, _CHUNK_BYTES))
        dtype = _FLOATS[span.data_type]
        whole = len(part) // dtype.itemsize
        if not np.isfinite(np.frombuffer(part, dtype, whole)).all():
            return False
        if not part:
            # The file was cut meanwhile, which is found at the end of loading.
            return True
        left -= len(part)
    return True
