"""Check that the graphs of a bundle refer to its weights file and to no other."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from google.protobuf.message import DecodeError, Message

from xuanzang.bundle.v1 import graph_pb2, manifest_pb2
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.files import FileError, open_regular, read_limited
from xuanzang.server.bundles.manifest import graph_files

# `onnx.TensorProto.DataType` → type of the elements. Integers are always numbers.
_FLOATS: dict[int, np.dtype[Any]] = {1: np.dtype("<f4"), 10: np.dtype("<f2"), 11: np.dtype("<f8")}
# A multiple of every type's size.
_CHUNK_BYTES = 4 << 20
# Two tensors may share their bytes; a graph with a thousand over all of the file would be read for hours.
_MAX_READS = 4
# Without weights a graph has some 50 KB.
_MAX_GRAPH_BYTES = 16 << 20
_IN_ANOTHER_FILE = 1
_MAX_DIGITS = 18


class WeightSpan(NamedTuple):
    """Part of a weights file that a tensor consists of."""

    tensor: str
    data_type: int
    offset: int
    length: int


def float_faults(directory: Path, weights: str, size: int, spans: Collection[WeightSpan]) -> Iterator[str]:
    """Find floats that are infinite or not a number, which would spoil the translations of some sentences only."""
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


def _is_finite(file: BufferedReader, span: WeightSpan) -> bool:
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


def weights_faults(directory: Path, manifest: manifest_pb2.Manifest) -> list[str]:
    """Find what is wrong with the references of graphs to other files, and with the weights that they refer to.

    onnxruntime maps these files into memory; it must be led to no other file, and to no byte outside it.
    """
    size = {file.name: file.size_bytes for file in manifest.files}[manifest.weights]
    spans: list[WeightSpan] = []
    faults: list[str] = []
    for name in graph_files(manifest).values():
        if not name.endswith(".onnx"):
            # onnxruntime goes by the name, too, and has another format, which is not checked here.
            faults.append(f"{name} is not named as an .onnx file")
        try:
            model = read_graph(directory, name)
        except BundleError as error:
            faults += error.reasons
        else:
            references = [_reference(tensor, manifest.weights, size) for tensor in _tensors(model)]
            faults += sorted({f"{name}: {fault}" for fault in references if isinstance(fault, str)})
            spans += [span for span in references if isinstance(span, WeightSpan)]
    return faults or list(float_faults(directory, manifest.weights, size, spans))


def read_graph(directory: Path, name: str) -> graph_pb2.OnnxModel:
    """Read a graph, or raise BundleError."""
    try:
        return graph_pb2.OnnxModel.FromString(read_limited(directory, name, _MAX_GRAPH_BYTES))
    except DecodeError as error:
        raise BundleError(directory, [f"{name} is not an ONNX graph"]) from error


def _tensors(message: Message) -> Iterator[graph_pb2.OnnxTensor]:
    """Yield every tensor of a model, wherever it is."""
    if isinstance(message, graph_pb2.OnnxTensor):
        yield message
        return
    for field, value in message.ListFields():
        if field.message_type:
            for part in [value] if isinstance(value, Message) else value:
                yield from _tensors(part)


def _reference(tensor: graph_pb2.OnnxTensor, weights: str, size: int) -> WeightSpan | str | None:
    """Return the bytes that a tensor refers to, or what is wrong with that; None if it has its own."""
    if not tensor.external_data and tensor.data_location != _IN_ANOTHER_FILE:
        return None
    entries = {entry.key: entry.value for entry in tensor.external_data}
    if len(tensor.external_data) != len(entries) or entries.keys() != {"location", "offset", "length"}:
        return f"{tensor.name!r} must have one location, offset and length"
    if entries["location"] != weights:
        return f"{tensor.name!r} is in {entries['location']!r}; weights must be in {weights!r}"
    offset, length = (_number(entries[key]) for key in ("offset", "length"))
    if offset is None or length is None or offset + length > size:
        span = f"offset {entries['offset']!r}, length {entries['length']!r}"
        return f"{tensor.name!r} has {span}; {weights} has {size} bytes"
    return WeightSpan(tensor.name, tensor.data_type, offset, length)


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS else None
