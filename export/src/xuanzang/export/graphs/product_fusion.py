"""The pass over finished int8 graphs that turns products, with what surrounds them, into operators of our own."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
from onnx import helper, numpy_helper

from xuanzang.export.builder import OWN, add_functions
from xuanzang.export.operators.products import feed_forward, quantized_product
from xuanzang.export.operators.source_attention import NAME as ATTENTION
from xuanzang.export.operators.source_attention import packed_source_attention
from xuanzang.export.tensors import STATE_AXES

_PRODUCT = "MatMulIntegerToFloat"
_NUM_HEADS = "num_heads"
PADDING_IS_SKIPPED = {"padding": "skipped"}
"""Property of a model whose kernels compute nothing for padding, so that sentences of any lengths may go together."""


def fuse_products(model: onnx.ModelProto) -> onnx.ModelProto:
    """Replace attention of the encoder, feed-forward networks and then all other products by operators.

    A product without bias keeps its node, and so does a network with another activation than ReLU.

    Args:
        model: Checked graph, which is changed.

    Returns:
        The same model, checked again.

    Raises:
        onnx.checker.ValidationError: The result breaks a rule of ONNX.
    """
    fusion = _Fusion(model.graph)
    for node in list(model.graph.node):
        fusion.fuse(node)
    if fusion.functions:
        fusion.finish()
        if ATTENTION in fusion.functions:
            helper.set_model_props(model, PADDING_IS_SKIPPED)
        add_functions(model, fusion.functions.values())
    return model


class _Fusion:
    """A graph while nodes are replaced: each operator stands where the last of its nodes stood."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self._graph = graph
        self._makers = {name: node for node in graph.node for name in node.output if name}
        self._uses = Counter(name for node in graph.node for name in node.input if name)
        self._dims = {tensor.name: list(tensor.dims) for tensor in graph.initializer}
        self._nodes = {node.name: node for node in graph.node}
        self.functions: dict[str, onnx.FunctionProto] = {}

    def fuse(self, node: onnx.NodeProto) -> None:
        """Replace a node, and those before it that only serve it."""
        if node.op_type == "QuantizeLinear":
            self._fuse_attention(node)
        if node.op_type == _PRODUCT and _has_bias(node):
            before = self._chain(node, "QuantizeLinear", "Relu", _PRODUCT)
            if before and _has_bias(before[-1]) and list(before[0].input[1:]) == [node.input[2], node.input[4]]:
                self._replace([node, *before], feed_forward(), [*_factors(before[-1]), *_factors(node)[1:]])
            else:
                self._replace([node], quantized_product(), _factors(node))

    def _fuse_attention(self, node: onnx.NodeProto) -> None:
        chain = self._chain(node, "GatherND", "MultiHeadAttention", "Split", "ScatterND")
        if not chain or list(chain[2].output) != chain[1].input[:3]:
            return
        _, attention, _, scatter = chain
        heads = helper.get_node_attr_value(attention, "num_heads")
        if _NUM_HEADS not in self._dims:
            self._graph.initializer.append(numpy_helper.from_array(np.array([heads], np.int64), _NUM_HEADS))
            self._dims[_NUM_HEADS] = [1]
        _, places, projected = scatter.input
        inputs = [projected, "source_lengths", places, _NUM_HEADS, *node.input[1:]]
        self._replace([node, *chain], packed_source_attention(heads), inputs)

    def _chain(self, node: onnx.NodeProto, *kinds: str) -> list[onnx.NodeProto]:
        """Return the nodes of some kinds that lead to a node's first input and nowhere else; empty for others."""
        found: list[onnx.NodeProto] = []
        for kind in kinds:
            name = (found[-1] if found else node).input[0]
            maker = self._makers.get(name)
            if maker is None or maker.op_type != kind or self._uses[name] != 1 or maker.name not in self._nodes:
                return []
            found.append(maker)
        return found

    def _replace(self, nodes: list[onnx.NodeProto], function: onnx.FunctionProto, inputs: list[str]) -> None:
        """Replace nodes by a call of a function in the place of the first of them, which is the last to run."""
        last, *others = nodes
        name = f"{function.name}_{last.output[0]}"
        self._nodes[last.name] = helper.make_node(function.name, inputs, list(last.output), name=name, domain=OWN)
        for node in others:
            del self._nodes[node.name]
        self.functions[function.name] = function

    def finish(self) -> None:
        """Put the nodes that are left into the graph, and state shapes that onnxruntime cannot infer."""
        nodes = list(self._nodes.values())
        wanted = {output.name for output in self._graph.output}
        kept: list[onnx.NodeProto] = []
        for node in reversed(nodes):
            if wanted.intersection(node.output):
                kept.append(node)
                wanted.update(node.input)
        del self._graph.node[:]
        self._graph.node.extend(reversed(kept))
        constants = [tensor for tensor in self._graph.initializer if tensor.name in wanted]
        del self._graph.initializer[:]
        self._graph.initializer.extend(constants)
        known = {value.name for value in self._graph.value_info}
        self._graph.value_info.extend(
            value for node in self._graph.node if (value := self._shape(node)) and value.name not in known
        )

    def _shape(self, node: onnx.NodeProto) -> onnx.ValueInfoProto | None:
        """Return type and shape of what an operator of this pass gives: the rows of the graph, as wide as the layer."""
        if node.op_type not in self.functions:
            return None
        rows = STATE_AXES[self._graph.name]
        if node.op_type != ATTENTION:
            width = self._dims[node.input[-1]][0]
            return helper.make_tensor_value_info(node.output[0], onnx.TensorProto.FLOAT, [*rows, width])
        biases = self._makers[node.input[0]].input[-1]
        return helper.make_tensor_value_info(
            node.output[0], onnx.TensorProto.UINT8, [*rows, self._dims[biases][0] // 3]
        )


def _has_bias(product: onnx.NodeProto) -> bool:
    return len(product.input) == 7 and not product.input[5] and bool(product.input[6])


def _factors(product: onnx.NodeProto) -> list[str]:
    """Return the inputs of a product without that for the zero points of the columns, which are 0."""
    return [*product.input[:5], product.input[6]]
