"""A file of many lines: our command and server, from text to text, beside CTranslate2 in process on the same pieces."""

from __future__ import annotations

import dataclasses
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from tqdm import tqdm

from benchmarks.engines.measurement import PARALLELISM, EngineProcess
from benchmarks.engines.models import BenchmarkModel, fits
from benchmarks.engines.served import ComparedModel
from benchmarks.engines.workload import Workload, target_limit
from benchmarks.harness.bundled_model import our_server
from benchmarks.harness.processes import environment
from xuanzang.model.data.corpus import CorpusError, read_pairs
from xuanzang.server.engine.text.sentences import split_sentences

LINES = 2000
BATCHES = (16, 32, 64, 128)
"""Sentences in a batch of CTranslate2, which sorts the file by length and cuts it."""
TRIED_SHARE = 4
"""The batches are compared on this part of the sentences, one of so many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileResult:
    """Rates of a model."""

    model: str
    lines: int
    sentences: int
    workers: int
    threads: int
    """Of CTranslate2 at its best."""
    max_batch: int
    """Sentences in its batches."""
    lines_per_second: Mapping[str, float]
    """Median of the rounds, by engine."""

    @property
    def ratio(self) -> float:
        """Our rate divided by CTranslate2's."""
        return self.lines_per_second["xuanzang"] / self.lines_per_second["ctranslate2"]


def measure_file(
    model: BenchmarkModel, served: ComparedModel, path: Path, scratch: Path, rounds: int, flags: Sequence[str] = ()
) -> FileResult:
    """Translate the first lines of a file by both engines in turn.

    Args:
        model: Model with its tokenisers.
        served: The same as both engines load it.
        path: File of source<TAB>target lines, plain or .gz.
        scratch: Folder for the lines.
        rounds: Measurements of each engine, of which the medians count.
        flags: Flags of our server.

    Raises:
        CorpusError: The file cannot be read, or no line fits the model.
    """
    lines = _lines(model, path)
    ids = [model.checkpoint.source_ids(sentence) for line in lines for sentence in split_sentences(line)]
    text = scratch / "lines.txt"
    text.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    with ExitStack() as stack:
        engine, workload = _best(stack, served, ids)
        server = stack.enter_context(our_server(served, *flags))
        seconds: dict[str, list[float]] = {"xuanzang": [], "ctranslate2": []}
        for _ in tqdm(range(rounds), desc=f"{model.name} file", unit="round"):
            seconds["xuanzang"].append(_command_seconds(server.address, text, len(lines)))
            seconds["ctranslate2"].append(engine.measure(workload).seconds)
    return FileResult(
        model=model.name,
        lines=len(lines),
        sentences=len(ids),
        workers=engine.workers,
        threads=engine.threads,
        max_batch=workload.max_batch,
        lines_per_second={name: len(lines) / statistics.median(found) for name, found in seconds.items()},
    )


def _lines(model: BenchmarkModel, path: Path) -> list[str]:
    """Return lines whose sentences both engines translate whole."""
    sources = (pair.source for pair in read_pairs(path))
    taken = (line for line in sources if all(fits(model.checkpoint, one) for one in split_sentences(line)))
    lines = list(islice(taken, LINES))
    if not lines:
        raise CorpusError(f"{path} has no line that the model takes")
    return lines


def _best(stack: ExitStack, served: ComparedModel, ids: Sequence[Sequence[int]]) -> tuple[EngineProcess, Workload]:
    """Return CTranslate2 with the parallelism, and the whole file with the batches, that take the least time."""
    engines = [
        stack.enter_context(EngineProcess("ctranslate2", served.ctranslate2, "int8", workers=workers, threads=threads))
        for workers, threads in PARALLELISM
    ]
    whole = Workload(batches=[ids], beam_size=4, max_target_length=max(map(target_limit, ids)), min_seconds=0)
    some = dataclasses.replace(whole, batches=[ids[::TRIED_SHARE]])
    tried = [(engine, size) for engine in engines for size in BATCHES]
    seconds = [
        engine.measure(dataclasses.replace(some, max_batch=size)).seconds
        for engine, size in tqdm(tried, desc=f"{served.name} batches of CTranslate2", unit="setting")
    ]
    engine, size = tried[seconds.index(min(seconds))]
    return engine, dataclasses.replace(whole, max_batch=size)


def _command_seconds(address: str, text: Path, count: int) -> float:
    """Translate a file by the command, its start included.

    Raises:
        ChildProcessError: It failed, or lines are missing.
    """
    output = text.with_name("translated.txt")
    command = [sys.executable, "-m", "xuanzang.client", "translate", "--length-penalty", "1"]
    command += ["--address", address, "--file", str(text), "--output", str(output)]
    started = time.perf_counter()
    status = subprocess.run(command, env=environment(), check=False).returncode
    seconds = time.perf_counter() - started
    if status or len(output.read_text(encoding="utf-8").splitlines()) != count:
        raise ChildProcessError(f"the command ended with status {status}, or lines are missing")
    return seconds
