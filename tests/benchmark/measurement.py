"""One process per engine and setting, asked in turn, so that whatever disturbs the machine disturbs all alike."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from processes import AskedProcess
from workload import Workload

ENGINES = ("xuanzang", "ctranslate2")
PARALLELISM = ((2, 1), (1, 2))
"""Workers and threads of each; both engines are tried with each and compared at their best."""
TRIALS = 2
"""Rounds with every setting: of a single one, something else may have been in the way."""
SETTLE_SECONDS = 0.05
"""Threads of the engine that ran before may still spin for some milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A workload translated once by one engine."""

    seconds: float
    """For all batches, tokenisation not counted."""
    target_ids: list[list[int]]
    """Best hypothesis of each sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineResult:
    """A workload measured with one engine at its best setting."""

    seconds: float
    """For all batches, median of the rounds."""
    workers: int
    threads: int
    shortlist: bool
    target_ids: list[list[int]]
    """Best hypothesis of each sentence."""


class EngineProcess(AskedProcess):
    """An engine in a process of its own."""

    def __init__(
        self, engine: str, folder: Path, precision: str, *, workers: int, threads: int, shortlist: bool = False
    ) -> None:
        """Start it.

        Args:
            engine: One of `ENGINES`.
            folder: Of its model.
            precision: "float32" or "int8".
            workers: Parts of a batch decoded side by side.
            threads: Of each.
            shortlist: Whether to choose among the pieces only that a source suggests.
        """
        self.engine, self.workers, self.threads, self.shortlist = engine, workers, threads, shortlist
        script = str(Path(__file__).with_name("worker.py"))
        flags = ["--shortlist"] if shortlist else []
        super().__init__(script, engine, str(folder), precision, str(workers), str(threads), *flags)

    def measure(self, workload: Workload) -> Measurement:
        """Have the workload translated.

        Raises:
            ChildProcessError: The process has ended; its error is on standard error.
        """
        return Measurement(**self.ask(dataclasses.asdict(workload)))


def start_processes(
    stack: ExitStack, folders: Mapping[str, Path], precision: str, *, shortlist: bool
) -> list[EngineProcess]:
    """Start every engine with every setting.

    Args:
        stack: Ends them.
        folders: Of the model, by engine.
        precision: "float32" or "int8".
        shortlist: Whether ours uses its shortlist; CTranslate2 is then tried without and with its own.
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
        processes: Of both engines, one for each setting.
        workload: To translate.
        rounds: At least two; after these, each engine goes on with the setting at which it was faster.

    Returns:
        By engine, the median of the rounds at that setting.
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
