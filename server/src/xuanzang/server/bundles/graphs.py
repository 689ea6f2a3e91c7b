"""Graphs of a bundle: their weights lie in its weights file only; and variants that return their attention."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
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
# Property of encoders, which the exporter sets.
_SKIPPED_PADDING = "padding", "skipped"
# The beginning of the name, which has the type of floats added unless it is float32.
_CROSS, _DECODER = "CrossAttention", "PagedAttention"
# An encoder has either: onnxruntime's, which takes queries and keys apart, or one of a bundle, side by side.
_ENCODER, _FUSED_ENCODERS = "MultiHeadAttention", ("PackedSourceAttention", "SourceAttention")


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
    """Find faults of the graphs' references to other files, and of the weights referred to.

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


def skips_padding(directory: Path, name: str) -> bool:
    """Return whether the kernels of an encoder compute nothing for padding; raise BundleError if it cannot be read."""
    properties = read_graph(directory, name).metadata_props
    return any((each.key, each.value) == _SKIPPED_PADDING for each in properties)


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
    """Return the bytes that a tensor refers to, or the fault of the reference; None if it has its own."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionGraph:
    """A graph that returns states of its attention in addition to its outputs."""

    content: bytes
    """The ONNX model; its weights lie in the bundle's folder."""
    queries: tuple[str, ...] = ()
    """Outputs with the queries of each layer's attention to the source, [batch, length, model]."""
    keys: tuple[str, ...] = ()
    """Outputs with the keys of each layer, [batch, length, model]; only of an encoder, with `queries` of that kind."""
    projected: tuple[str, ...] = ()
    """Outputs with queries, keys and values of each layer's self-attention side by side, [batch, length, 3 · model]."""


def attention_encoder(directory: Path, name: str, layers: int) -> AttentionGraph:
    """Read an encoder graph and add outputs; raise BundleError if its attention is not found."""
    model = read_graph(directory, name)
    projected = tuple(_first_inputs(model, *_FUSED_ENCODERS))
    if len(projected) == layers:
        return AttentionGraph(content=_with_outputs(model, *projected), projected=projected)
    nodes = [node for node in model.graph.node if node.op_type == _ENCODER]
    _require(directory, name, {_ENCODER: (len(nodes), layers)})
    queries, keys = (tuple(node.input[part] for node in nodes) for part in (0, 1))
    return AttentionGraph(content=_with_outputs(model, *queries, *keys), queries=queries, keys=keys)


def attention_decoder(directory: Path, name: str, layers: int, *, recurrent: bool = False) -> AttentionGraph:
    """Read a graph of a decoder step and add outputs; raise BundleError if its attention is not found.

    `recurrent`: whether it has attention to the source only.
    """
    model = read_graph(directory, name)
    queries, projected = (tuple(_first_inputs(model, operator)) for operator in (_CROSS, _DECODER))
    own = 0 if recurrent else layers
    _require(directory, name, {_CROSS: (len(queries), layers), _DECODER: (len(projected), own)})
    content = _with_outputs(model, *queries, *projected)
    return AttentionGraph(content=content, queries=queries, projected=projected)


def _first_inputs(model: graph_pb2.OnnxModel, *operators: str) -> Iterator[str]:
    return (node.input[0] for node in model.graph.node if node.op_type.startswith(operators) and node.input)


def _require(directory: Path, name: str, counts: dict[str, tuple[int, int]]) -> None:
    faults = [
        f"{name} has {found} operators {operator}, and the dimensions say {layers} layers"
        for operator, (found, layers) in counts.items()
        if found != layers
    ]
    if faults:
        raise BundleError(directory, faults)


def _with_outputs(model: graph_pb2.OnnxModel, *names: str) -> bytes:
    known = {value.name for value in model.graph.output}
    model.graph.output.extend(graph_pb2.OnnxValue(name=name) for name in names if name not in known)
    content: bytes = model.SerializeToString()
    return content
