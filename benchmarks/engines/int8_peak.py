"""Process that measures the peak rate of 8-bit products in onnxruntime; answers each line of input with the rate.

It runs the operator of our graphs on matrices large enough to hide every other cost, with as many sessions of one
thread as the engine has workers. Its kernels are the fastest of onnxruntime: the ones that are exact on every
processor (EXACT_PRODUCTS), which servers ask for, take more than twice as long where others are exact as well.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from xuanzang.export.builder import IR_VERSION, MICROSOFT, OPSET

SHAPES = ((256, 512, 2048), (1024, 1024, 1024), (2048, 2048, 2048))
"""Rows, inner width and columns of the products; the peak is the rate of the fastest."""
SECONDS = 0.4
"""Duration of the measurement of each shape."""


def product(inner: int, columns: int) -> bytes:
    """Return a graph with one product of activations [row, inner] and weights [inner, columns]."""
    weights = np.random.default_rng(0).integers(-127, 128, (inner, columns), dtype=np.int8)
    constants: dict[str, np.ndarray[Any, Any]] = {
        "weights": weights,
        "weight_scale": np.ones(columns, np.float32),
        "scale": np.array(0.1, np.float32),
        "zero": np.array(128, np.uint8),
    }
    node = helper.make_node(
        "MatMulIntegerToFloat",
        ["x", "weights", "scale", "weight_scale", "zero"],
        ["y"],
        domain=MICROSOFT,
    )
    graph = helper.make_graph(
        [node],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, ("row", inner))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ("row", columns))],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(MICROSOFT, 1)]
    content: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION).SerializeToString()
    return content


def multiply_adds_per_second(shape: tuple[int, int, int], threads: int) -> float:
    """Measure the rate of one product on several threads at once.

    Args:
        shape: Rows, inner width and columns.
        threads: Number of threads, each with its own session.
    """
    rows, inner, columns = shape
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    graph = product(inner, columns)
    sessions = [
        onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"]) for _ in range(threads)
    ]
    feed = {"x": np.random.default_rng(1).integers(0, 256, (rows, inner), dtype=np.uint8)}
    until = time.perf_counter() + SECONDS

    def multiply(session: onnxruntime.InferenceSession) -> float:
        runs, began = 0, time.perf_counter()
        while time.perf_counter() < until:
            session.run(["y"], feed)
            runs += 1
        return runs / (time.perf_counter() - began)

    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(multiply, sessions)) * rows * inner * columns


def main() -> None:
    """Answer until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("threads", type=int)
    threads = parser.parse_args().threads
    for _ in sys.stdin:
        print(json.dumps(max(multiply_adds_per_second(shape, threads) for shape in SHAPES)), flush=True)


if __name__ == "__main__":
    main()
