"""The pass over finished int8 graphs that turns sum, normalisation and quantisation into one operator."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import onnx
from onnx import helper

from xuanzang.export.builder import OWN, add_functions
from xuanzang.export.operators.products import EPSILON, MARIAN_EPSILON, add_norm_clip_quantize, add_norm_quantize


class _Sequence(NamedTuple):
    """Nodes that each take the output of the one before."""

    add: onnx.NodeProto
    norm: onnx.NodeProto
    clip: onnx.NodeProto | None
    quantize: onnx.NodeProto

    @property
    def parameters(self) -> list[str]:
        """Constants of the nodes, in their order."""
        return [*self.norm.input[1:], *(self.clip.input[1:] if self.clip else ()), *self.quantize.input[1:]]

    @property
    def is_known(self) -> bool:
        """True if there is an operator for them."""
        epsilon, count = (MARIAN_EPSILON, 6) if self.clip else (EPSILON, 4)
        found = helper.get_node_attr_value(self.norm, "epsilon")
        return len(self.parameters) == count and math.isclose(found, epsilon, rel_tol=1e-6)


def fuse_add_norm_quantize(model: onnx.ModelProto) -> onnx.ModelProto:
    """Replace each residual sum, its normalisation and the quantisation of that by one operator.

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
        functions = {
            bool(each.clip): add_norm_clip_quantize() if each.clip else add_norm_quantize() for each in sequences
        }
        add_functions(model, functions.values())
    return model


def _sequences(graph: onnx.GraphProto) -> Iterator[_Sequence]:
    makers = {name: node for node in graph.node for name in node.output if name}
    constants = {tensor.name for tensor in graph.initializer}
    rounded = Counter(node.input[0] for node in graph.node if node.op_type in ("Clip", "QuantizeLinear"))
    for quantize in graph.node:
        if quantize.op_type != "QuantizeLinear":
            continue
        before = makers.get(quantize.input[0])
        clip = before if before and before.op_type == "Clip" else None
        norm = makers.get(clip.input[0]) if clip else before
        add = makers.get(norm.input[0]) if norm and norm.op_type == "LayerNormalization" else None
        if norm and add and add.op_type == "Add" and rounded[norm.output[0]] == 1:
            sequence = _Sequence(add, norm, clip, quantize)
            if constants.issuperset(sequence.parameters) and sequence.is_known:
                yield sequence


def _replace(graph: onnx.GraphProto, sequences: list[_Sequence]) -> None:
    """Replace each sum by its operator, as all inputs are known there; other nodes keep their order."""
    gone = {node.name for _, *others in sequences for node in others if node}
    fused = {sequence.add.name: sequence for sequence in sequences}
    nodes = [node for node in graph.node if node.name not in gone]
    taken = {name for node in nodes for name in node.input} | {output.name for output in graph.output}
    replaced = [_operator(fused[node.name], taken) if node.name in fused else node for node in nodes]
    del graph.node[:]
    graph.node.extend(replaced)


def _operator(sequence: _Sequence, taken: set[str]) -> onnx.NodeProto:
    add, norm, clip, quantize = sequence
    unused_left_out = [name if name in taken else "" for name in (*add.output, *norm.output)]
    kind = "AddNormClipQuantize" if clip else "AddNormQuantize"
    return helper.make_node(
        kind,
        [*add.input, *sequence.parameters],
        [*quantize.output, *unused_left_out],
        name=f"{kind}_{add.name}",
        domain=OWN,
    )


def _state_shapes(graph: onnx.GraphProto, sequences: list[_Sequence]) -> None:
    """State that integers have the shape of their sum where it is known, which onnxruntime cannot infer."""
    known = {value.name: value for value in graph.value_info}
    for add, _, _, quantize in sequences:
        if add.output[0] in known:
            shape = [axis.dim_param or axis.dim_value for axis in known[add.output[0]].type.tensor_type.shape.dim]
            integers = helper.make_tensor_value_info(quantize.output[0], onnx.TensorProto.UINT8, shape)
            graph.value_info.append(integers)
