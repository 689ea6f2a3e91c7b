"""Measurements of engines, interleaved over one process per engine and setting so that disturbances hit all alike."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.engines.workload import Workload
from benchmarks.harness.processes import AskedProcess

ENGINES = ("xuanzang", "ctranslate2")
PARALLELISM = ((2, 1), (1, 2))
"""Workers and threads per worker; each engine is tried with every pair and compared at its best."""
TRIALS = 2
"""Rounds with every setting; a single one may have been disturbed."""
SETTLE_SECONDS = 0.05
"""Pause before a measurement, for the threads of the previous engine to stop spinning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Result of one pass of a workload by one engine."""

    seconds: float
    """Time of all batches, without tokenisation."""
    target_ids: list[list[int]]
    """Best hypothesis of each sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineResult:
    """Result of a workload with one engine at its best setting."""

    seconds: float
    """Time of all batches, median of the rounds."""
    workers: int
    threads: int
    shortlist: bool
    target_ids: list[list[int]]
    """Best hypothesis of each sentence."""


class EngineProcess(AskedProcess):
    """An engine in a separate process."""

    def __init__(
        self, engine: str, folder: Path, precision: str, *, workers: int, threads: int, shortlist: bool = False
    ) -> None:
        """Start the process.

        Args:
            engine: One of `ENGINES`.
            precision: "float32" or "int8".
            workers: Parts of a batch decoded at the same time.
            shortlist: Whether target tokens are limited to the shortlist of each source.
        """
        self.engine, self.workers, self.threads, self.shortlist = engine, workers, threads, shortlist
        flags = ["--shortlist"] if shortlist else []
        super().__init__(
            "-m", "benchmarks.engines.worker", engine, str(folder), precision, str(workers), str(threads), *flags
        )

    def measure(self, workload: Workload) -> Measurement:
        """Send the workload to the process and return the result.

        Raises:
            ChildProcessError: The process has ended; its error is on standard error.
        """
        return Measurement(**self.ask(dataclasses.asdict(workload)))


def start_processes(
    stack: ExitStack, folders: Mapping[str, Path], precision: str, *, shortlist: bool
) -> list[EngineProcess]:
    """Start every engine with every setting.

    Args:
        folders: Folder of the model, by engine.
        precision: "float32" or "int8".
        shortlist: Whether our engine uses its shortlist; CTranslate2 is then tried with and without its own.
    """
    settings = [("xuanzang", shortlist), *(("ctranslate2", used) for used in {False, shortlist})]
    return [
        stack.enter_context(
            EngineProcess(engine, folders[engine], precision, workers=workers, threads=threads, shortlist=used)
        )
        for workers, threads in PARALLELISM
        for engine, used in settings
    ]


def measure_interleaved(processes: Sequence[EngineProcess], workload: Workload, rounds: int) -> dict[str, EngineResult]:
    """Measure a workload in rounds A B A B, after one round that does not count.

    Args:
        processes: Processes of both engines, one for each setting.
        rounds: Number of rounds, two or more; after two, each engine continues with its faster setting.

    Returns:
        Median of the rounds at that setting, by engine.
    """
    warm_up = dataclasses.replace(workload, min_seconds=0.0)
    answers = {process: process.measure(warm_up).target_ids for process in processes}
    seconds: dict[EngineProcess, list[float]] = {process: [] for process in processes}
    for _ in range(TRIALS):
        for process in processes:
            seconds[process].append(_measure_settled(process, workload))
    best = {
        engine: min(
            (process for process in processes if process.engine == engine), key=lambda process: min(seconds[process])
        )
        for engine in ENGINES
    }
    for _ in range(rounds - TRIALS):
        for process in best.values():
            seconds[process].append(_measure_settled(process, workload))
    return {
        engine: EngineResult(
            seconds=statistics.median(seconds[process]),
            workers=process.workers,
            threads=process.threads,
            shortlist=process.shortlist,
            target_ids=answers[process],
        )
        for engine, process in best.items()
    }


def _measure_settled(process: EngineProcess, workload: Workload) -> float:
    time.sleep(SETTLE_SECONDS)
    return process.measure(workload).seconds
