"""One process per engine and setting, asked in turn, so that whatever disturbs the machine disturbs all alike."""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from workload import Workload

ENGINES = ("xuanzang", "ctranslate2")
PARALLELISM = ((2, 1), (1, 2))
"""Workers and threads of each; both engines are measured with each and compared at their best."""
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
    target_ids: list[list[int]]
    """Best hypothesis of each sentence."""


class EngineProcess:
    """An engine in a process of its own."""

    def __init__(self, engine: str, folder: Path, precision: str, workers: int, threads: int) -> None:
        self.engine, self.workers, self.threads = engine, workers, threads
        command = [sys.executable, str(Path(__file__).with_name("worker.py"))]
        command += [engine, str(folder), precision, str(workers), str(threads)]
        environment = os.environ | ({"CT2_FORCE_CPU_ISA": "AVX512"} if has_avx512() else {})
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def __enter__(self) -> EngineProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()  # the end of its input ends it

    def measure(self, workload: Workload) -> Measurement:
        """Have the workload translated.

        Raises:
            ChildProcessError: The process has ended; its error is on standard error.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin, "a pipe, as asked for"
        assert stdout, "a pipe, as asked for"
        stdin.write(json.dumps(dataclasses.asdict(workload)) + "\n")
        stdin.flush()
        answer = stdout.readline()
        if not answer:
            raise ChildProcessError(f"the process of {self.engine} ended, status {self._process.wait()}")
        return Measurement(**json.loads(answer))


def start_processes(stack: ExitStack, folders: Mapping[str, Path], precision: str) -> list[EngineProcess]:
    """Start every engine with every setting.

    Args:
        stack: Ends them.
        folders: Of the model, by engine.
        precision: "float32" or "int8".
    """
    return [
        stack.enter_context(EngineProcess(engine, folders[engine], precision, workers, threads))
        for workers, threads in PARALLELISM
        for engine in ENGINES
    ]


def measure_interleaved(processes: Sequence[EngineProcess], workload: Workload, rounds: int) -> dict[str, EngineResult]:
    """Measure a workload in rounds A B A B, after one round that does not count.

    Returns:
        By engine, its setting with the least median.
    """
    seconds: dict[EngineProcess, list[float]] = {process: [] for process in processes}
    warm_up = dataclasses.replace(workload, min_seconds=0.0)
    answers = {process: process.measure(warm_up).target_ids for process in processes}
    for _ in range(rounds):
        for process in processes:
            time.sleep(SETTLE_SECONDS)
            seconds[process].append(process.measure(workload).seconds)
    medians = {process: statistics.median(values) for process, values in seconds.items()}
    best = {
        engine: min((process for process in processes if process.engine == engine), key=medians.__getitem__)
        for engine in ENGINES
    }
    return {
        engine: EngineResult(
            seconds=medians[process],
            workers=process.workers,
            threads=process.threads,
            target_ids=answers[process],
        )
        for engine, process in best.items()
    }


def has_avx512() -> bool:
    """Return whether this CPU has AVX-512, which CTranslate2 leaves unused on many CPUs unless it is told to use it."""
    return "avx512f" in Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
