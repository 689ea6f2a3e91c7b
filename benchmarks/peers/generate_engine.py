"""Engines behind `generate` of transformers: its own models, Optimum's on onnxruntime, and OpenVINO's.

Runs in an environment without this project's packages.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.engines.workload import Translated, Workload


class Generate:
    """A model with the method `generate` of transformers."""

    def __init__(self, model: Any) -> None:
        """Take a model.

        Args:
            model: Model that has been loaded for inference.
        """
        self._model = model

    @torch.inference_mode()
    def translate(self, batch: Sequence[Sequence[int]], workload: Workload) -> Translated:
        """Translate one batch of sentences of equal length and time it."""
        started = time.perf_counter()
        source = torch.tensor(batch)
        found = self._model.generate(
            input_ids=source,
            attention_mask=torch.ones_like(source),
            num_beams=workload.beam_size,
            do_sample=False,
            length_penalty=1.0,
            early_stopping=False,
            max_new_tokens=workload.max_target_length,
        )
        seconds = time.perf_counter() - started
        # The first token starts the decoding.
        return Translated(seconds, [row[1:] for row in found.tolist()])


def load_transformers(directory: Path, _scratch: Path, precision: str, _threads: int) -> Any:
    """Load the model of transformers; int8 are the dynamically quantised linear layers of torch."""
    from transformers import MarianMTModel

    model: Any = MarianMTModel.from_pretrained(directory, dtype=torch.float32).eval()
    if precision == "int8":
        quantization: Any = torch.ao.quantization  # without types
        return quantization.quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8)
    return model


def load_optimum(directory: Path, scratch: Path, precision: str, threads: int) -> Any:
    """Load Optimum's model on onnxruntime; int8 is Optimum's own dynamic quantisation, by channel."""
    from onnxruntime import SessionOptions
    from optimum.onnxruntime import ORTModelForSeq2SeqLM

    graphs = scratch / "optimum-float32"
    if not graphs.exists():
        exported = ORTModelForSeq2SeqLM.from_pretrained(directory, export=True, use_cache=True)
        _write_whole(exported.save_pretrained, graphs)
    if precision == "int8":
        quantized = scratch / "optimum-int8"
        if not quantized.exists():
            _write_whole(lambda folder: _quantize_optimum(graphs, folder), quantized)
        graphs = quantized
    options = SessionOptions()
    options.intra_op_num_threads = threads
    return ORTModelForSeq2SeqLM.from_pretrained(graphs, provider="CPUExecutionProvider", session_options=options)


def _quantize_optimum(graphs: Path, folder: Path) -> None:
    from optimum.onnxruntime import ORTQuantizer
    from optimum.onnxruntime.configuration import AutoQuantizationConfig

    config = AutoQuantizationConfig.avx512_vnni(is_static=False, per_channel=True)
    for graph in sorted(graphs.glob("*.onnx")):
        quantizer = ORTQuantizer.from_pretrained(graphs, file_name=graph.name)
        quantizer.quantize(save_dir=folder, quantization_config=config, file_suffix="")
    for file in graphs.glob("*.json"):
        (folder / file.name).write_bytes(file.read_bytes())


def load_openvino(directory: Path, scratch: Path, precision: str, threads: int) -> Any:
    """Load OpenVINO's model; int8 are its compressed weights; it then also quantises activations."""
    from optimum.intel import OVModelForSeq2SeqLM

    graphs = scratch / f"openvino-{precision}"
    if not graphs.exists():
        exported = OVModelForSeq2SeqLM.from_pretrained(
            directory, export=True, compile=False, load_in_8bit=precision == "int8"
        )
        _write_whole(exported.save_pretrained, graphs)
    settings = {"INFERENCE_NUM_THREADS": str(threads), "PERFORMANCE_HINT": "LATENCY"}
    if precision == "float32":
        settings["EXECUTION_MODE_HINT"] = "ACCURACY"  # else processors with bfloat16 would compute in it
    return OVModelForSeq2SeqLM.from_pretrained(graphs, ov_config=settings)


LOADERS: Mapping[str, Callable[[Path, Path, str, int], Any]] = {
    "transformers": load_transformers,
    "optimum": load_optimum,
    "openvino": load_openvino,
}


def _write_whole(write: Callable[[Path], object], folder: Path) -> None:
    """Write a folder, or nothing if that fails."""
    unfinished = folder.with_name(f"{folder.name}.{os.getpid()}")
    unfinished.mkdir(parents=True)
    write(unfinished)
    unfinished.rename(folder)
