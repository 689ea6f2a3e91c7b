"""Files of graphs: small ones with nodes, and one that holds the weights of all of them.

The weights file changes only if the weights do, not if a node does. onnxruntime maps it into memory, so that processes
on one machine share those pages of it that are not rearranged for the processor.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

import onnx
from onnx.external_data_helper import set_external_data

WEIGHTS_FILE = "weights.bin"
_MIN_BYTES = 1024
"""Size from which a constant is a weight. Smaller ones stay in the graph: onnxruntime looks at shapes and scalars."""
_ALIGNMENT = 64
"""Weights begin at multiples of this many bytes, a cache line and the widest vector register."""


def separate_weights(models: Mapping[str, onnx.ModelProto]) -> dict[str, bytes]:
    """Return the files of graphs, the same bytes for the same graphs.

    Args:
        models: Graphs by file name.

    Returns:
        Contents by file name: the graphs without their weights, and WEIGHTS_FILE, which holds equal weights once.
    """
    offsets, content = {}, bytearray()
    for digest, tensor in _each_once(models.values()).items():
        content += bytes(-len(content) % _ALIGNMENT)
        offsets[digest] = len(content)
        content += tensor.raw_data
    return {name: _without_weights(model, offsets) for name, model in models.items()} | {WEIGHTS_FILE: bytes(content)}


def _each_once(models: Iterable[onnx.ModelProto]) -> dict[bytes, onnx.TensorProto]:
    """Return different weights by digest, ordered by name: the order of nodes and graphs has no influence."""
    named = sorted((tensor.name, _digest(tensor), tensor) for model in models for tensor in _weights(model))
    return {digest: tensor for _, digest, tensor in reversed(named)}


def _weights(model: onnx.ModelProto) -> list[onnx.TensorProto]:
    return [tensor for tensor in model.graph.initializer if len(tensor.raw_data) >= _MIN_BYTES]


def _digest(tensor: onnx.TensorProto) -> bytes:
    return hashlib.sha256(tensor.raw_data).digest()


def _without_weights(model: onnx.ModelProto, offsets: Mapping[bytes, int]) -> bytes:
    small = onnx.ModelProto()
    small.CopyFrom(model)
    for tensor in _weights(small):
        set_external_data(tensor, WEIGHTS_FILE, offsets[_digest(tensor)], len(tensor.raw_data))
        tensor.ClearField("raw_data")
    return small.SerializeToString(deterministic=True)
