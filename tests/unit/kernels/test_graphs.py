"""Graphs that the library opens itself, beside onnxruntime's Python package."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from xuanzang.kernels.graphs import Graph, GraphBinding, GraphError

SHAPE = ("batch", 3)


@pytest.fixture
def library(built: Path) -> Path:
    # It opens graphs for the onnxruntime that has asked for its operators.
    onnxruntime.SessionOptions().register_custom_ops_library(str(built))
    return built


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """File of a graph that adds one array to another, and says where the sum is positive."""
    nodes = [
        helper.make_node("Add", ["left", "right"], ["sum"]),
        helper.make_node("Greater", ["sum", "zero"], ["positive"]),
    ]
    floats = [helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in ("left", "right", "sum")]
    positive = helper.make_tensor_value_info("positive", TensorProto.BOOL, SHAPE)
    zero = helper.make_tensor("zero", TensorProto.FLOAT, (), [0.0])
    graph = helper.make_graph(nodes, "sums", floats[:2], [floats[2], positive], [zero])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.save(model, tmp_path / "sums.onnx")
    return tmp_path / "sums.onnx"


@pytest.fixture
def graph(library: Path, path: Path) -> Graph:
    return Graph(library, path, threads=1, disabled_optimizers=("SkipLayerNormFusion",))


def numbers(seed: int, batch: int = 4) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(batch, 3)).astype(np.float32)


def test_a_graph_computes_what_the_python_package_does(graph: Graph, path: Path) -> None:
    assert graph.names == ["left", "right", "sum", "positive"]
    left, right, found = numbers(0), numbers(1), np.zeros((4, 3), np.float32)
    positive = np.zeros((4, 3), np.bool_)
    binding = graph.new_binding()
    binding.bind({"left": left, "right": right}, {"sum": found, "positive": positive})
    peer = onnxruntime.InferenceSession(str(path))
    for _ in range(3):
        binding.run()
        expected = peer.run(["sum", "positive"], {"left": left, "right": right})
        np.testing.assert_array_equal(found, expected[0])
        np.testing.assert_array_equal(positive, expected[1])
        left += found  # each run reads what the tensors hold then


def test_a_tensor_may_be_replaced_by_one_of_another_shape_or_by_a_value(graph: Graph) -> None:
    binding = graph.new_binding(shrinks=True)
    for batch in (4, 1, 7):
        left, right = numbers(batch, batch), numbers(batch + 1, batch)
        found, positive = np.zeros((batch, 3), np.float32), np.zeros((batch, 3), np.bool_)
        value = onnxruntime.OrtValue.ortvalue_from_numpy(right)
        binding.bind({"left": left, "right": value}, {"sum": found, "positive": positive})
        binding.run()
        np.testing.assert_array_equal(found, left + right)


def test_threads_run_one_graph_by_bindings_of_their_own(graph: Graph) -> None:
    def run(seed: int) -> bool:
        left, right = numbers(seed), numbers(seed + 1)
        found, positive = np.zeros((4, 3), np.float32), np.zeros((4, 3), np.bool_)
        binding = graph.new_binding()
        binding.bind({"left": left, "right": right}, {"sum": found, "positive": positive})
        for _ in range(50):
            binding.run()
        return bool((found == left + right).all())

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, range(16)))


@pytest.mark.parametrize("names", [("middle", "sum"), ("right", "difference")])
def test_what_a_graph_lacks_cannot_be_bound(graph: Graph, names: tuple[str, str]) -> None:
    binding = graph.new_binding()
    arrays = {name: numbers(0) for name in ("left", *names)}
    with pytest.raises(GraphError, match=r"middle|difference"):
        run(binding, arrays, names[1])


def run(binding: GraphBinding, arrays: dict[str, np.ndarray], output: str) -> None:
    found = {output: arrays.pop(output), "positive": np.zeros((4, 3), np.bool_)}
    binding.bind(arrays, found)
    binding.run()


def test_tensors_that_do_not_fit_fail_with_a_message(graph: Graph) -> None:
    binding = graph.new_binding()
    found, positive = np.zeros((4, 3), np.float32), np.zeros((4, 3), np.bool_)
    binding.bind({"left": numbers(0), "right": numbers(1, batch=3)}, {"sum": found, "positive": positive})
    with pytest.raises(GraphError, match=r"\S"):
        binding.run()
    with pytest.raises(ValueError, match="contiguous"):
        binding.bind({"left": numbers(0)[:, ::2]}, {})


@pytest.mark.parametrize("content", [None, b"", b"not a graph"])
def test_what_is_no_graph_is_not_opened(library: Path, tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "graph.onnx"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(GraphError, match=r"\S"):
        Graph(library, path, threads=1)


def test_a_graph_lives_as_long_as_its_bindings(graph: Graph, library: Path, path: Path) -> None:
    opened = Graph(library, path, threads=1)
    gone = weakref.ref(opened)
    binding = opened.new_binding()
    del opened
    assert gone()
    del binding
    gc.collect()
    assert gone() is None
