"""The time that a decoder step takes."""

from __future__ import annotations

import statistics
import time

import numpy as np
import onnxruntime

from xuanzang.export.certification.runner import OnnxModel
from xuanzang.export.certification.step_inputs import LiveHypotheses, pages_for, step_inputs
from xuanzang.export.tensors import PAGE_SLOTS

_MIN_RUNS, _MAX_SECONDS = 5, 2.0


def step_milliseconds(
    onnx_model: OnnxModel, position: int, *, batch: int = 8, beam_size: int = 4, runs: int = 15
) -> float:
    """Return the median time of one decoder step with a history of `position` tokens per hypothesis.

    After a few steps, those of a large model are no more than fit in some seconds.
    """
    config = onnx_model.config
    memory = onnx_model.encode([[config.unk_id] * 24 + [config.eos_id]] * batch)
    # Slots of one translation of that length, and some of the tokens that the other hypotheses do not share.
    pages = pages_for(position + 4 * beam_size)
    shape = (batch, beam_size)
    live = LiveHypotheses(np.full(shape, config.bos_id), np.zeros(shape, np.float32), np.zeros(shape, np.int64))
    visible = np.ones((*shape, pages * PAGE_SLOTS), dtype=bool)
    inputs = step_inputs(config, live, position, np.tile(np.arange(beam_size), (batch, 1)), visible)
    feed = memory | onnx_model.empty_pages(batch * pages)
    feed |= {name: onnxruntime.OrtValue.ortvalue_from_numpy(value) for name, value in inputs.items()}
    times: list[float] = []
    while len(times) < runs and (len(times) < _MIN_RUNS or sum(times) < _MAX_SECONDS):
        started = time.perf_counter()
        onnx_model.step(feed)
        times.append(time.perf_counter() - started)
    return 1000 * statistics.median(times)
