"""Check that the graphs of a bundle refer to its weights file and to no other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from google.protobuf.message import DecodeError

from xuanzang.bundle.v1 import graph_pb2, manifest_pb2
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.files import read_limited
from xuanzang.server.bundles.graphs.finite import Span, float_faults
from xuanzang.server.bundles.manifest import graph_files

# Without weights a graph has some 50 KB.
MAX_GRAPH_BYTES = 16 << 20

_IN_ANOTHER_FILE = 1
_MAX_DIGITS = 18


def weights_faults(directory: Path, manifest: manifest_pb2.Manifest) -> list[str]:
    """Find what is wrong with the references of graphs to other files, and with the weights that they refer to.

    onnxruntime maps these files into memory; it must be led to no other file, and to no byte outside it.

    Args:
        directory: Folder of the bundle.
        manifest: Checked manifest, whose files have the digests that it lists.

    Returns:
        One sentence per fault; empty if there is none.
    """
    size = {file.name: file.size_bytes for file in manifest.files}[manifest.weights]
    spans: list[Span] = []
    faults: list[str] = []
    for name in graph_files(manifest):
        if not name.endswith(".onnx"):
            # onnxruntime goes by the name, too, and has another format, which is not checked here.
            faults.append(f"{name} is not named as an .onnx file")
        try:
            model = graph_pb2.OnnxModel.FromString(read_limited(directory, name, MAX_GRAPH_BYTES))
        except BundleError as error:
            faults += error.reasons
        except DecodeError:
            faults.append(f"{name} is not an ONNX graph")
        else:
            references = [_reference(tensor, manifest.weights, size) for tensor in _tensors(model)]
            faults += sorted({f"{name}: {fault}" for fault in references if isinstance(fault, str)})
            spans += [span for span in references if isinstance(span, Span)]
    return faults or list(float_faults(directory, manifest.weights, size, spans))


def _tensors(model: graph_pb2.OnnxModel) -> Iterator[graph_pb2.OnnxTensor]:
    """Yield every tensor of a model, wherever it is."""
    yield from _of_graph(model.graph)
    for training in model.training_info:
        yield from _of_graph(training.initialization)
        yield from _of_graph(training.algorithm)
    for function in model.functions:
        yield from _of_attributes(function.attribute_proto)
        yield from _of_nodes(function.node)


def _of_graph(graph: graph_pb2.OnnxGraph) -> Iterator[graph_pb2.OnnxTensor]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _of_nodes(graph.node)


def _of_nodes(nodes: Iterable[graph_pb2.OnnxNode]) -> Iterator[graph_pb2.OnnxTensor]:
    for node in nodes:
        yield from _of_attributes(node.attribute)


def _of_attributes(attributes: Iterable[graph_pb2.OnnxAttribute]) -> Iterator[graph_pb2.OnnxTensor]:
    for attribute in attributes:
        yield from (attribute.t, *attribute.tensors)
        for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
            yield from (sparse.values, sparse.indices)
        for graph in (attribute.g, *attribute.graphs):
            yield from _of_graph(graph)


def _reference(tensor: graph_pb2.OnnxTensor, weights: str, size: int) -> Span | str | None:
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
    return Span(tensor.name, tensor.data_type, offset, length)


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS else None
