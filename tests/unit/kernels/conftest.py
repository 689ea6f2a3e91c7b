"""The kernels beside their oracle: the ONNX function of each operator, run by onnxruntime alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

from xuanzang.export.builder import IR_VERSION, OWN
from xuanzang.kernels import EXACT_PRODUCTS, find_kernels, supported_isas

Arrays = dict[str, np.ndarray]
OpenOperator = Callable[..., Any]
"""Opens one operator twice, as a kernel and as its function: `Operator`, for an instruction set."""
Change = Callable[[np.ndarray], np.ndarray]
CONTINUATIONS = ("candidate_scores", "candidate_ids", "candidate_parents")
DEAD_SCORE = -1.0e9
"""Score of a beam position without hypothesis, in the server's search."""


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


class Operator:
    """One operator in two sessions: as a kernel for an instruction set, and as standard operators."""

    isa = ""
    has_products = False
    """Whether there are kernels for products, too."""
    library: Path

    def __init__(
        self,
        function: onnx.FunctionProto,
        inputs: Arrays,
        *,
        threads: int = 1,
        calls: Sequence[onnx.FunctionProto] = (),
        constants: Arrays | None = None,
    ) -> None:
        """Open the sessions.

        Args:
            inputs: Examples of the inputs that each run gives.
            constants: Inputs that never change.
        """
        self.name, self.names = function.name, list(function.output)
        functions = [_with_exact_products(one) for one in (function, *calls)]
        model = _model(functions, inputs, constants or {})
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XUANZANG_KERNELS_ISA", self.isa)
            self.kernel = _open(model, operators=self.library, threads=threads)
        self.function = _open(model, operators=None, threads=threads)

    def run(self, inputs: Arrays) -> Arrays:
        return dict(zip(self.names, self.kernel.run(None, inputs), strict=True))

    def check(self, inputs: Arrays) -> Arrays:
        """Run both, compare them, and return the kernel's outputs."""
        found = self.run(inputs)
        for name, expected in zip(self.names, self.function.run(None, inputs), strict=True):
            assert found[name].shape == expected.shape
            np.testing.assert_allclose(found[name], expected, rtol=1e-5, atol=2e-6, err_msg=name)
        return found

    def refuses(self, inputs: Arrays, message: str) -> None:
        """Check that the kernel refuses inputs with its name and a message."""
        with pytest.raises(InvalidArgument, match=f"{self.name}: {message}"):
            self.run({name: np.asarray(array, order="C") for name, array in inputs.items()})

    def check_alone(self, together: Arrays, inputs: Arrays) -> None:
        """Compare the continuations of each sentence alone with those in company, bit for bit."""
        shared = ("candidate_count", "banned_ids", "inspected_rows", "required_ids")
        first = inputs | {"inspected_rows": np.zeros_like(inputs["inspected_rows"])}
        for i in range(len(inputs["x"])):
            alone = self.run({name: array if name in shared else array[i : i + 1] for name, array in first.items()})
            for name in CONTINUATIONS:
                np.testing.assert_array_equal(alone[name], together[name][i : i + 1], err_msg=name)

    def check_living(self, inputs: Arrays, *, inspected: int) -> None:
        """Compare the continuations of a batch that lacks some hypotheses with the function's.

        Args:
            inputs: Those of three sentences or more with three hypotheses or more.
        """
        if not self.has_products:
            pytest.skip("there is no kernel for this instruction set")
        scores = inputs["scores"].copy()
        # As after a first step, of a sentence that is done, and one in between.
        scores[0, 1:] = scores[1, :] = scores[2, 2] = DEAD_SCORE
        inputs = inputs | {"scores": scores}
        expected = dict(zip(self.names, self.function.run(None, inputs), strict=True))
        found = self.run(inputs | {name: inputs[name][:inspected] for name in ("inspected_rows", "required_ids")})
        lives = expected["candidate_scores"] > DEAD_SCORE / 2
        assert lives.any()
        np.testing.assert_array_equal(found["candidate_scores"] > DEAD_SCORE / 2, lives)
        for name in CONTINUATIONS:
            np.testing.assert_allclose(found[name][lives], expected[name][lives], rtol=1e-5, atol=2e-6, err_msg=name)
        required = expected["required_scores"][:inspected]
        np.testing.assert_allclose(found["required_scores"], required, rtol=1e-5, atol=2e-6)

    def check_equal(self, other: Operator, inputs: Arrays) -> None:
        """Compare the kernel's outputs with those of another session, bit for bit."""
        others = other.run(inputs)
        for name, array in self.run(inputs).items():
            np.testing.assert_array_equal(array, others[name], err_msg=name)


@pytest.fixture(scope="session")
def built() -> Path:
    """The library: another build than that of the package if KERNELS_LIBRARY names one, as `.ci/sanitize` does."""
    if other := os.environ.get("KERNELS_LIBRARY"):
        return Path(other)
    kernels = find_kernels()
    if kernels.library is None:
        pytest.skip(f"there are no kernels: {kernels.detail}")
    return kernels.library


@pytest.fixture(scope="session", params=["amx", "avx512_vnni", "avx512", "avx2", "generic"])
def operator(request: pytest.FixtureRequest, built: Path) -> type[Operator]:
    """Opens an operator with kernels for each instruction set that this machine has."""
    if request.param not in supported_isas():
        pytest.skip("this processor has no such instructions")
    return operator_for(request.param, built)


@pytest.fixture(scope="session")
def fastest(built: Path) -> type[Operator]:
    """Opens an operator with the kernels that are chosen here; what inputs are refused does not depend on them."""
    return operator_for(supported_isas()[0], built)


def operator_for(isa: str, library: Path) -> type[Operator]:
    members = {"isa": isa, "has_products": isa != "generic", "library": library}
    return type("OperatorForIsa", (Operator,), members)


@pytest.fixture(scope="session")
def operators_with_products(built: Path) -> list[type[Operator]]:
    """Open an operator with the kernels of each instruction set that has products."""
    found = [operator_for(isa, built) for isa in supported_isas()]
    return [each for each in found if each.has_products]


def _with_exact_products(function: onnx.FunctionProto) -> onnx.FunctionProto:
    """Return a function whose products of integers are those of floats of 64 bits.

    On processors without VNNI onnxruntime's saturate if no factor is a constant.
    """
    exact, nodes = onnx.FunctionProto(), list[onnx.NodeProto]()

    def op(kind: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        name = output or f"exact_{len(nodes)}"
        nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def double(name: str) -> str:
        return op("Cast", name, to=onnx.TensorProto.DOUBLE)

    for node in function.node:
        if node.op_type == "MatMulIntegerToFloat":
            x, weight, x_scale, scale, zero, _, bias = node.input
            product = op("MatMul", op("Sub", double(x), double(zero)), double(weight))
            scaled = op("Mul", op("Cast", product, to=onnx.TensorProto.FLOAT), op("Mul", x_scale, scale))
            op("Add", scaled, bias, output=node.output[0])
        else:
            nodes.append(node)
    exact.CopyFrom(function)
    del exact.node[:]
    exact.node.extend(nodes)
    return exact


def _model(functions: Sequence[onnx.FunctionProto], inputs: Arrays, constants: Arrays) -> bytes:
    function = functions[0]
    node = helper.make_node(function.name, list(function.input), list(function.output), domain=OWN)
    described = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), [f"{name}_{axis}" for axis in range(array.ndim)]
        )
        for name, array in inputs.items()
    ]
    outputs = [helper.make_empty_tensor_value_info(name) for name in function.output]
    given = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph([node], "operator", described, outputs, given)
    opsets = {opset.domain: opset for opset in (*function.opset_import, helper.make_opsetid(OWN, 1))}
    model = helper.make_model(graph, opset_imports=list(opsets.values()), ir_version=IR_VERSION, functions=functions)
    serialized: bytes = model.SerializeToString()
    return serialized


def _open(model: bytes, *, operators: Path | None, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    # Each tensor has memory of its own, so that `.ci/sanitize` sees what is written beside it.
    options.enable_cpu_mem_arena = options.enable_mem_pattern = False
    options.add_session_config_entry(*EXACT_PRODUCTS)
    options.log_severity_level = 4  # refused inputs are asked for
    if operators:
        options.register_custom_ops_library(str(operators))
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
