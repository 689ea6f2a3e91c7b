"""Graphs of a bundle with more outputs: the states which attention is computed from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from xuanzang.bundle.v1 import graph_pb2
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.graph_weights import read_graph

# The beginning of the name, which has the type of floats added unless it is float32.
_CROSS, _DECODER = "CrossAttention", "PagedAttention"
# An encoder has either: onnxruntime's, which takes queries and keys apart, or one of a bundle, side by side.
_ENCODER, _FUSED_ENCODERS = "MultiHeadAttention", ("PackedSourceAttention", "SourceAttention")


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionGraph:
    """A graph that returns states of its attention besides its own outputs."""

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


def attention_decoder(directory: Path, name: str, layers: int) -> AttentionGraph:
    """Read a graph of a decoder step and add outputs; raise BundleError if its attention is not found."""
    model = read_graph(directory, name)
    queries, projected = (tuple(_first_inputs(model, operator)) for operator in (_CROSS, _DECODER))
    _require(directory, name, {_CROSS: (len(queries), layers), _DECODER: (len(projected), layers)})
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
