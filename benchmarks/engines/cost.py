"""Cost of serving: start, memory, CPU time outside onnxruntime, and the share of the int8 peak."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.engines.measurement import ENGINES, EngineProcess
from benchmarks.engines.served import CALLERS, Batching, ComparedModel, Effort, ctranslate2_server
from benchmarks.engines.workload import Workload
from benchmarks.harness.bundled_model import our_server
from benchmarks.harness.loads import Callers, Load
from benchmarks.harness.processes import AskedProcess
from xuanzang.model.network.config import TransformerConfig
from xuanzang.server.engine.hardware import usable_cores

STARTS = 3
BATCHING = Batching(workers=2, threads=1, max_batch=32, delay=0)
"""Settings of CTranslate2's server; start and memory hardly depend on them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCost:
    """Cost of the servers of one model."""

    model: str
    start_seconds: Mapping[str, float]
    """Median time from the start of the process to the first translation, by engine."""
    resident_megabytes: Mapping[str, float]
    """VmRSS after a saturating load, by engine."""
    share_outside_onnxruntime: float
    """Share of our server's CPU time under that load that its threads spent outside onnxruntime's sessions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakShare:
    """Rate of the engine's int8 products and the highest rate of onnxruntime."""

    multiply_adds_per_second: float
    """Multiply-adds per second of the engine."""
    peak: float
    """Multiply-adds per second of large products."""

    @property
    def share(self) -> float:
        """Rate of the engine divided by the peak, 0 to 1."""
        return self.multiply_adds_per_second / self.peak


def measure_server_cost(model: ComparedModel, effort: Effort, scratch: Path, flags: Sequence[str] = ()) -> ServerCost:
    """Start and load the servers of a model.

    Args:
        effort: Duration of the loads.
        scratch: Folder for the sentences of the load generator.
    """
    start_seconds = _start_seconds(model, flags)
    callers = Callers(model.texts, scratch)
    with our_server(model, *flags, program=("-m", "benchmarks.engines.counted_server")) as server:
        # The first load allocates memory and spreads the sentences over all positions; the second is counted.
        callers.call(_saturating(server.address, effort))
        before = server.ask("seconds so far")
        callers.call(_saturating(server.address, effort))
        after = server.ask("seconds so far")
        resident = {"xuanzang": server.resident_megabytes()}
    with ctranslate2_server(model, BATCHING) as server:
        callers.call(_saturating(server.address, effort))
        resident["ctranslate2"] = server.resident_megabytes()
    process, inside = (after[name] - before[name] for name in ("process", "onnxruntime"))
    if not inside:
        raise ValueError("the server called onnxruntime in a way that is not counted")
    return ServerCost(
        model=model.name,
        start_seconds=start_seconds,
        resident_megabytes=resident,
        share_outside_onnxruntime=1 - inside / process,
    )


def _start_seconds(model: ComparedModel, flags: Sequence[str]) -> dict[str, float]:
    """Return the median time of a start, by engine."""
    starts: dict[str, list[float]] = {engine: [] for engine in ENGINES}
    for _ in range(STARTS):
        with our_server(model, *flags) as server:
            starts["xuanzang"].append(server.start_seconds)
        with ctranslate2_server(model, BATCHING) as server:
            starts["ctranslate2"].append(server.start_seconds)
    return {engine: statistics.median(found) for engine, found in starts.items()}


def measure_peak_share(folder: Path, config: TransformerConfig, workload: Workload, rounds: int) -> PeakShare:
    """Compare the rate of the engine's products with the highest rate of onnxruntime.

    Args:
        folder: Folder of the int8 bundle.
        config: Configuration of its model.
        workload: Batches of many sentences.
        rounds: Number of alternating measurements; medians count.
    """
    rates: list[float] = []
    peaks: list[float] = []
    with (
        EngineProcess("xuanzang", folder, "int8", workers=usable_cores(), threads=1) as engine,
        AskedProcess("-m", "benchmarks.engines.int8_peak", str(usable_cores())) as peak,
    ):
        engine.measure(workload)  # a warm-up
        for _ in range(rounds):
            measured = engine.measure(workload)
            sources = [len(ids) for batch in workload.batches for ids in batch]
            targets = [len(ids) + 1 for ids in measured.target_ids]
            rates.append(multiply_adds(config, sources, targets, workload.beam_size) / measured.seconds)
            peaks.append(peak.ask("rate"))
    return PeakShare(multiply_adds_per_second=statistics.median(rates), peak=statistics.median(peaks))


def multiply_adds(
    config: TransformerConfig, source_lengths: Sequence[int], target_lengths: Sequence[int], beam_size: int
) -> int:
    """Count the multiply-adds with weights in some translations; those of attention are in floats and not counted.

    Args:
        config: Configuration of the model.
        source_lengths: Tokens of each source, eos counted.
        target_lengths: Tokens of each best hypothesis, eos counted, which are the steps of the sentence.
        beam_size: Hypotheses at each step but the first, which has one.
    """
    square, feed_forward = config.d_model**2, 2 * config.d_model * config.d_ff
    encoder = config.num_encoder_layers * (4 * square + feed_forward)
    cross_key_values = config.num_decoder_layers * 2 * square
    # Query, key, value and output of attention to the history; query and output of attention to the source.
    step = config.num_decoder_layers * (6 * square + feed_forward) + config.d_model * config.target_vocab_size
    rows = sum(1 + beam_size * (length - 1) for length in target_lengths)
    return sum(source_lengths) * (encoder + cross_key_values) + rows * step


def _saturating(address: str, effort: Effort) -> Load:
    return Load(
        address=address,
        rate=None,
        callers=CALLERS,
        seconds=effort.seconds,
        warm_up_seconds=effort.warm_up_seconds,
        seed=0,
    )
