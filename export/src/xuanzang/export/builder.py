"""Builders of ONNX graphs and functions, node by node."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from xuanzang.export.tensors import TensorSpec
from xuanzang.export.weight_store import MIN_BYTES, RowBlocks, WeightStore, is_external, row_blocks

OPSET = 21
IR_VERSION = 10
MICROSOFT = "com.microsoft"
"""Domain of onnxruntime's fused operators."""
OWN = "xuanzang"
"""Domain of the operators in `xuanzang.export.operators`."""

_DTYPES = {
    "int64": TensorProto.INT64,
    "float32": TensorProto.FLOAT,
    "float16": TensorProto.FLOAT16,
    "uint8": TensorProto.UINT8,
    "int8": TensorProto.INT8,
    "int32": TensorProto.INT32,
    "bool": TensorProto.BOOL,
}


class GraphBuilder:
    """Collects nodes and constants; values are referred to by name."""

    def __init__(self, name: str, weights: WeightStore | None = None) -> None:
        """Begin a graph.

        Args:
            weights: Store for constants of some size; None to keep them in the graph, which then has 2 GB at most.
        """
        self._name, self._weights = name, weights
        self._nodes: list[onnx.NodeProto] = []
        self._numbers = itertools.count()
        self._constants: dict[str, onnx.TensorProto] = {}
        self._functions: dict[str, onnx.FunctionProto] = {}
        self._known: dict[str, onnx.ValueInfoProto] = {}
        self._shared: dict[tuple[str, ...], str] = {}

    def constant(self, name: str, value: npt.ArrayLike | RowBlocks, dtype: npt.DTypeLike | None = None) -> str:
        """Add a constant once and return its name."""
        if name not in self._constants:
            self._constants[name] = self._tensor(name, value, dtype)
        return name

    def _tensor(self, name: str, value: npt.ArrayLike | RowBlocks, dtype: npt.DTypeLike | None) -> onnx.TensorProto:
        if isinstance(value, RowBlocks) and self._weights:
            return self._weights.add(name, value, dtype or np.float32)
        array = np.asarray(value.whole() if isinstance(value, RowBlocks) else value, dtype)
        if self._weights and array.nbytes >= MIN_BYTES:
            return self._weights.add(name, row_blocks(array), array.dtype)
        return numpy_helper.from_array(np.ascontiguousarray(array), name)

    def ints(self, *values: int) -> str:
        """Add a constant [len(values)], int64, and return its name."""
        return self.constant("ints_" + "_".join(map(str, values)), values, np.int64)

    def scalar(self, value: int) -> str:
        """Add a constant without dimensions, int64, and return its name."""
        return self.constant(f"scalar_{value}", value, np.int64)

    def op(self, kind: str, *inputs: str, domain: str = "", output: str | None = None, **attributes: Any) -> str:
        """Add a node with one output and return the output's name; an empty name stands for an omitted input."""
        return self.multi_op(kind, *inputs, domain=domain, outputs=[output or self._fresh(kind)], **attributes)[0]

    def shared_op(self, kind: str, *inputs: str) -> str:
        """Add a node with one output unless the same node is there already, and return the output's name."""
        if (kind, *inputs) not in self._shared:
            self._shared[kind, *inputs] = self.op(kind, *inputs)
        return self._shared[kind, *inputs]

    def multi_op(
        self, kind: str, *inputs: str, outputs: int | Sequence[str], domain: str = "", **attributes: Any
    ) -> list[str]:
        """Add a node with several outputs, counted or named, and return their names."""
        names = [self._fresh(f"{kind}_{i}") for i in range(outputs)] if isinstance(outputs, int) else list(outputs)
        self._nodes.append(helper.make_node(kind, inputs, names, name=self._fresh(kind), domain=domain, **attributes))
        return names

    def call(
        self,
        function: onnx.FunctionProto,
        *inputs: str,
        outputs: Sequence[str],
        calls: Sequence[onnx.FunctionProto] = (),
    ) -> None:
        """Add a node for a function, which becomes part of the model.

        Args:
            function: Function from a `FunctionBuilder`.
            outputs: Names for its outputs; an empty name stands for an unused one.
        """
        self._functions |= {each.name: each for each in (*calls, function)}
        self.multi_op(function.name, *inputs, outputs=outputs, domain=function.domain)

    def cast(self, x: str, dtype: str) -> str:
        """Add a conversion to another type, such as "float32", and return the result's name."""
        return self.op("Cast", x, to=_DTYPES[dtype])

    def known(self, name: str, *shape: str | int, dtype: str = "float32") -> str:
        """State type and shape of a value that onnxruntime cannot infer, and return its name.

        onnxruntime lets an output take the memory of an input only if both are known to have the same size.
        """
        self._known[name] = helper.make_tensor_value_info(name, _DTYPES[dtype], shape)
        return name

    def model(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> onnx.ModelProto:
        """Return the model, checked.

        Raises:
            onnx.checker.ValidationError: The graph breaks a rule of ONNX.
        """
        self._leave_out_unused([spec.name for spec in outputs])
        graph = helper.make_graph(
            self._nodes,
            self._name,
            [_value_info(spec) for spec in inputs],
            [_value_info(spec) for spec in outputs],
            list(self._constants.values()),
            value_info=list(self._known.values()),
        )
        functions = list(self._functions.values())
        model = helper.make_model(
            graph,
            opset_imports=_opsets(*{function.domain for function in functions}),
            ir_version=IR_VERSION,
            producer_name="xuanzang",
            functions=functions,
        )
        check(model)
        return model

    def _leave_out_unused(self, outputs: Sequence[str]) -> None:
        """Omit unused outputs of our own operators, so that kernels need not compute them."""
        taken = {name for node in self._nodes for name in node.input} | {*outputs}
        for node in self._nodes:
            if node.domain == OWN:
                node.output[:] = [name if name in taken else "" for name in node.output]

    def _fresh(self, kind: str) -> str:
        return f"{kind}_{next(self._numbers)}"


class FunctionBuilder(GraphBuilder):
    """Collects the nodes of a function, which defines an operator of our own."""

    def constant(self, name: str, value: npt.ArrayLike | RowBlocks, dtype: npt.DTypeLike | None = None) -> str:
        """Add a constant once and return its name."""
        if name not in self._constants:
            super().constant(name, value, dtype)
            self.op("Constant", value=self._constants[name], output=name)
        return name

    def function(self, inputs: Sequence[str], outputs: Sequence[str]) -> onnx.FunctionProto:
        """Return the function, named as this builder is.

        Args:
            inputs: Names of its inputs in the nodes.
            outputs: Names of its outputs in the nodes.
        """
        return helper.make_function(
            OWN,
            self._name,
            inputs,
            outputs,
            self._nodes,
            opset_imports=_opsets(*{called.domain for called in self._functions.values()}),
            value_info=list(self._known.values()),
        )


def check(model: onnx.ModelProto) -> None:
    """Check a model; of weights that lie in a file, type and shape.

    Raises:
        onnx.checker.ValidationError: The graph breaks a rule of ONNX.
    """
    checked = onnx.ModelProto()
    checked.CopyFrom(model)
    del checked.graph.initializer[:]
    for tensor in model.graph.initializer:
        if is_external(tensor):
            # The checker would look for the file.
            checked.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
        else:
            checked.graph.initializer.append(tensor)
    onnx.checker.check_model(checked, full_check=True)


def add_functions(model: onnx.ModelProto, functions: Iterable[onnx.FunctionProto]) -> None:
    """Define operators of our own in a finished model whose nodes call them, and check it again.

    Args:
        model: Model, which is changed.
        functions: Functions of the domain `OWN`.

    Raises:
        onnx.checker.ValidationError: The graph breaks a rule of ONNX.
    """
    model.functions.extend(functions)
    if OWN not in {opset.domain for opset in model.opset_import}:
        model.opset_import.append(helper.make_opsetid(OWN, 1))
    check(model)


def _opsets(*others: str) -> list[onnx.OperatorSetIdProto]:
    versions = {"": OPSET, MICROSOFT: 1, **dict.fromkeys(others, 1)}
    return [helper.make_opsetid(domain, version) for domain, version in versions.items()]


def _value_info(spec: TensorSpec) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(spec.name, _DTYPES[spec.dtype], spec.shape)
