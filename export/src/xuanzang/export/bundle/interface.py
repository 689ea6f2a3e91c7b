"""Entries of a manifest that do not depend on the kind of model."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from xuanzang.bundle.v1 import manifest_pb2
from xuanzang.export.builder import OPSET
from xuanzang.export.tensors import TensorSpec

FORMAT = 2
PRECISIONS = {
    "float32": manifest_pb2.PRECISION_FLOAT32,
    "float16": manifest_pb2.PRECISION_FLOAT16,
    "int8": manifest_pb2.PRECISION_INT8,
}


def graph_of(file: str, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> manifest_pb2.Graph:
    """Return the entry of a graph."""
    return manifest_pb2.Graph(
        file=file, inputs=[_tensor(spec) for spec in inputs], outputs=[_tensor(spec) for spec in outputs], opset=OPSET
    )


def _tensor(spec: TensorSpec) -> manifest_pb2.Tensor:
    return manifest_pb2.Tensor(name=spec.name, dtype=spec.dtype, shape=[str(size) for size in spec.shape])


def git_commit() -> str:
    """Return the commit of the working tree, or "unknown" outside one."""
    try:
        command = ["git", "rev-parse", "HEAD"]
        result = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - a fixed command
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return result.stdout.strip()
