"""Writing ONNX graphs node by node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from xuanzang.export.tensors import TensorSpec

OPSET = 21
IR_VERSION = 10
MICROSOFT = "com.microsoft"
"""Domain of onnxruntime's fused operators."""

_DTYPES = {"int64": TensorProto.INT64, "float32": TensorProto.FLOAT, "int8": TensorProto.INT8, "bool": TensorProto.BOOL}


class GraphBuilder:
    """Collects nodes and constants; values are referred to by name."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}
        self._known: list[onnx.ValueInfoProto] = []

    def constant(self, name: str, value: npt.ArrayLike, dtype: npt.DTypeLike | None = None) -> str:
        """Add a constant once and return its name."""
        if name not in self._constants:
            self._constants[name] = numpy_helper.from_array(np.ascontiguousarray(np.asarray(value, dtype)), name)
        return name

    def ints(self, *values: int) -> str:
        """Add a constant [len(values)], int64, and return its name."""
        return self.constant("ints_" + "_".join(map(str, values)), values, np.int64)

    def op(self, kind: str, *inputs: str, domain: str = "", output: str | None = None, **attributes: Any) -> str:
        """Add a node with one output and return the output's name; an empty input name means left out."""
        return self.multi_op(kind, *inputs, domain=domain, outputs=[output or self._fresh(kind)], **attributes)[0]

    def multi_op(
        self, kind: str, *inputs: str, outputs: int | Sequence[str], domain: str = "", **attributes: Any
    ) -> list[str]:
        """Add a node with several outputs, counted or named, and return their names."""
        names = [self._fresh(f"{kind}_{i}") for i in range(outputs)] if isinstance(outputs, int) else list(outputs)
        node = helper.make_node(kind, inputs, names, name=f"{kind}_{len(self._nodes)}", domain=domain, **attributes)
        self._nodes.append(node)
        return names

    def known(self, name: str, *shape: str | int) -> str:
        """State the shape of a float value that onnxruntime cannot infer, and return its name.

        Only what is known to have the size of an input can take its place in memory; anything else is copied.
        """
        self._known.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        return name

    def model(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> onnx.ModelProto:
        """Return the checked model.

        Raises:
            onnx.checker.ValidationError: The graph breaks a rule of ONNX.
        """
        graph = helper.make_graph(
            self._nodes,
            self._name,
            [_value_info(spec) for spec in inputs],
            [_value_info(spec) for spec in outputs],
            list(self._constants.values()),
            value_info=self._known,
        )
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(MICROSOFT, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="xuanzang")
        onnx.checker.check_model(model, full_check=True)
        return model

    def _fresh(self, kind: str) -> str:
        return f"{kind}_{len(self._nodes)}"


def _value_info(spec: TensorSpec) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(spec.name, _DTYPES[spec.dtype], spec.shape)
