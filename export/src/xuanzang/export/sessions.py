"""Graphs in onnxruntime, opened as the server opens them, so that its replay gives the same integers."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnxruntime

from xuanzang.kernels import EXACT_PRODUCTS, library


def graph_session(model: onnx.ModelProto, threads: int, folder: Path | None) -> onnxruntime.InferenceSession:
    """Open a graph on the CPU; `folder` holds the file of its weights, unless the graph holds them."""
    options = onnxruntime.SessionOptions()
    if folder:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(folder))
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    options.add_session_config_entry(*EXACT_PRODUCTS)
    if operators := library():
        options.register_custom_ops_library(str(operators))
    # onnxruntime's fused residual + norm kernel is four times slower on CPU than the two it replaces.
    return onnxruntime.InferenceSession(
        model.SerializeToString(),
        options,
        providers=["CPUExecutionProvider"],
        disabled_optimizers=["SkipLayerNormFusion"],
    )
