"""The pass over finished int8 graphs that turns sum, normalisation and quantisation into one operator."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import onnx
from onnx import helper

from xuanzang.export.builder import OWN, add_functions
from xuanzang.export.operators.products import EPSILON, add_norm_quantize


class _Sequence(NamedTuple):
    """Three nodes that each take the output of the one before."""

    add: onnx.NodeProto
    norm: onnx.NodeProto
    quantize: onnx.NodeProto


def fuse_add_norm_quantize(model: onnx.ModelProto) -> onnx.ModelProto:
    """Replace each residual sum, its normalisation and the quantisation of that by one AddNormQuantize.

    A normalised state that is quantised more than once, with another scale for each layer that takes it, keeps its
    nodes: one operator gives one tensor of integers.

    Args:
        model: Checked graph, which is changed.

    Returns:
        The same model, checked again.

    Raises:
        onnx.checker.ValidationError: The result breaks a rule of ONNX.
    """
    sequences = list(_sequences(model.graph))
    if sequences:
        _replace(model.graph, sequences)
        _state_shapes(model.graph, sequences)
        add_functions(model, [add_norm_quantize()])
    return model


def _sequences(graph: onnx.GraphProto) -> Iterator[_Sequence]:
    makers = {name: node for node in graph.node for name in node.output if name}
    constants = {tensor.name for tensor in graph.initializer}
    quantized = Counter(node.input[0] for node in graph.node if node.op_type == "QuantizeLinear")
    for quantize in graph.node:
        norm = makers.get(quantize.input[0]) if quantize.op_type == "QuantizeLinear" else None
        add = makers.get(norm.input[0]) if norm and norm.op_type == "LayerNormalization" else None
        if norm and add and add.op_type == "Add" and quantized[norm.output[0]] == 1:
            parameters = [*norm.input[1:], *quantize.input[1:]]
            if len(parameters) == 4 and constants.issuperset(parameters) and _has_epsilon(norm):
                yield _Sequence(add, norm, quantize)


def _has_epsilon(norm: onnx.NodeProto) -> bool:
    return math.isclose(helper.get_node_attr_value(norm, "epsilon"), EPSILON, rel_tol=1e-6)


def _replace(graph: onnx.GraphProto, sequences: list[_Sequence]) -> None:
    """Replace each sum by its operator, as all inputs are known there; other nodes keep their order."""
    gone = {node.name for sequence in sequences for node in (sequence.norm, sequence.quantize)}
    fused = {sequence.add.name: sequence for sequence in sequences}
    nodes = [node for node in graph.node if node.name not in gone]
    taken = {name for node in nodes for name in node.input} | {output.name for output in graph.output}
    replaced = [_operator(fused[node.name], taken) if node.name in fused else node for node in nodes]
    del graph.node[:]
    graph.node.extend(replaced)


def _operator(sequence: _Sequence, taken: set[str]) -> onnx.NodeProto:
    add, norm, quantize = sequence
    unused_left_out = [name if name in taken else "" for name in (*add.output, *norm.output)]
    return helper.make_node(
        "AddNormQuantize",
        [*add.input, *norm.input[1:], *quantize.input[1:]],
        [*quantize.output, *unused_left_out],
        name=f"AddNormQuantize_{add.name}",
        domain=OWN,
    )


def _state_shapes(graph: onnx.GraphProto, sequences: list[_Sequence]) -> None:
    """State that integers have the shape of their sum where it is known, which onnxruntime cannot infer."""
    known = {value.name: value for value in graph.value_info}
    for add, _, quantize in sequences:
        if add.output[0] in known:
            shape = [axis.dim_param or axis.dim_value for axis in known[add.output[0]].type.tensor_type.shape.dim]
            integers = helper.make_tensor_value_info(quantize.output[0], onnx.TensorProto.UINT8, shape)
            graph.value_info.append(integers)
