"""Files of graphs: small ones with nodes, and one that holds the weights of all of them.

The weights file changes only if the weights do, not if a node does. onnxruntime maps it into memory, so that processes
on one machine share those pages of it that are not rearranged for the processor.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import onnx

from xuanzang.export.weight_store import ALIGNMENT, MIN_BYTES, WeightStore, is_external, refer, span_of

WEIGHTS_FILE = "weights.bin"


def write_graphs(models: Mapping[str, onnx.ModelProto], folder: Path, store: WeightStore | None = None) -> None:
    """Write the files of graphs, the same bytes for the same graphs.

    Writes the graphs without their weights, and WEIGHTS_FILE, which holds equal weights once.

    Args:
        models: Graphs by file name.
        folder: Folder for the files.
        store: Weights that the graphs do not hold.
    """
    offsets = _write_weights(folder / WEIGHTS_FILE, _each_once(models.values(), store), store)
    for name, model in models.items():
        (folder / name).write_bytes(_without_weights(model, offsets, store))


def _write_weights(
    path: Path, weights: Mapping[bytes, onnx.TensorProto], store: WeightStore | None
) -> dict[bytes, int]:
    """Write weights one after the other and return where each begins, by digest."""
    offsets = {}
    with path.open("wb") as file:
        for digest, tensor in weights.items():
            file.write(bytes(-file.tell() % ALIGNMENT))
            offsets[digest] = file.tell()
            for block in _bytes_of(tensor, store):
                file.write(block)
    return offsets


def _each_once(models: Iterable[onnx.ModelProto], store: WeightStore | None) -> dict[bytes, onnx.TensorProto]:
    """Return different weights by digest, ordered by name: the order of nodes and graphs has no influence."""
    named = [(tensor.name, _digest(tensor, store), tensor) for model in models for tensor in _weights(model)]
    return {digest: tensor for _, digest, tensor in sorted(named, key=lambda entry: entry[:2], reverse=True)}


def _weights(model: onnx.ModelProto) -> list[onnx.TensorProto]:
    return [tensor for tensor in model.graph.initializer if is_external(tensor) or len(tensor.raw_data) >= MIN_BYTES]


def _digest(tensor: onnx.TensorProto, store: WeightStore | None) -> bytes:
    return store.digest(tensor) if store and is_external(tensor) else hashlib.sha256(tensor.raw_data).digest()


def _bytes_of(tensor: onnx.TensorProto, store: WeightStore | None) -> Iterator[bytes]:
    if store and is_external(tensor):
        yield from store.read(tensor)
    else:
        yield tensor.raw_data


def _without_weights(model: onnx.ModelProto, offsets: Mapping[bytes, int], store: WeightStore | None) -> bytes:
    small = onnx.ModelProto()
    small.CopyFrom(model)
    for tensor in _weights(small):
        length = span_of(tensor)[1] if is_external(tensor) else len(tensor.raw_data)
        refer(tensor, WEIGHTS_FILE, offsets[_digest(tensor, store)], length)
    return small.SerializeToString(deterministic=True)
