"""A file of many lines, text to text: `Translator`, `xuanzang batch`, our command and server, and CTranslate2."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from tqdm import tqdm

from benchmarks.engines.measurement import PARALLELISM
from benchmarks.engines.models import BenchmarkModel, fits
from benchmarks.engines.served import ComparedModel
from benchmarks.harness.bundled_model import our_server
from benchmarks.harness.processes import AskedProcess, environment
from xuanzang.model.data.corpus import CorpusError, read_pairs
from xuanzang.server.engine.hardware import usable_cores
from xuanzang.text.sentences import split_sentences

LINES = 2000
BATCHES = (16, 32, 64, 128)
"""Sentences in a batch of CTranslate2, which sorts the file by length and cuts it."""
TRIED_SHARE = 4
"""The batches are compared on one of this number of lines."""
WAYS = ("Translator", "batch", "server")
"""Ours: in process, by `xuanzang batch`, and by `xuanzang translate --file` with a server, both with their starts."""


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
    """Median of the rounds, by one of `WAYS` and for "ctranslate2"."""

    def ratio(self, way: str) -> float:
        """Our rate divided by CTranslate2's."""
        return self.lines_per_second[way] / self.lines_per_second["ctranslate2"]


def measure_file(
    model: BenchmarkModel, served: ComparedModel, path: Path, scratch: Path, rounds: int, flags: Sequence[str] = ()
) -> FileResult:
    """Translate the first lines of a file by both engines in turn.

    Args:
        served: The same as both engines load it.
        path: File of source<TAB>target lines, plain or .gz.
        scratch: Folder for the lines.
        rounds: Measurements of each engine; medians count.
        flags: Flags of our server.

    Raises:
        CorpusError: The file cannot be read, or no line fits the model.
    """
    lines = _lines(model, path)
    text = scratch / "lines.txt"
    text.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    with ExitStack() as stack:
        peer = _best(stack, served, text)
        translator = stack.enter_context(FileProcess("xuanzang", served, workers=usable_cores(), threads=1))
        server = stack.enter_context(our_server(served, *flags))
        ways: dict[str, Callable[[], float]] = {
            "Translator": lambda: translator.seconds(text),
            "batch": lambda: _batch_seconds(served, text, len(lines)),
            "server": lambda: _command_seconds(server.address, text, len(lines)),
            "ctranslate2": lambda: peer.seconds(text),
        }
        translator.seconds(text, every=TRIED_SHARE)
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        for _ in tqdm(range(rounds), desc=f"{model.name} file", unit="round"):
            for way, measure in ways.items():
                seconds[way].append(measure())
    return FileResult(
        model=model.name,
        lines=len(lines),
        sentences=sum(len(split_sentences(line)) for line in lines),
        workers=peer.workers,
        threads=peer.threads,
        max_batch=peer.max_batch,
        lines_per_second={way: len(lines) / statistics.median(found) for way, found in seconds.items()},
    )


class FileProcess(AskedProcess):
    """An engine in a separate process, which translates files."""

    def __init__(self, engine: str, served: ComparedModel, *, workers: int, threads: int) -> None:
        """Start the process; `max_batch` is for CTranslate2."""
        self.workers, self.threads, self.max_batch = workers, threads, 0
        flags = ("--workers", str(workers), "--threads", str(threads), "--model", str(served.ctranslate2))
        super().__init__("-m", "benchmarks.engines.file_worker", engine, str(served.bundle), *flags)

    def seconds(self, text: Path, *, every: int = 1) -> float:
        """Translate a file, or a sample of its lines, and return the seconds."""
        output = text.with_name("translated-in-process.txt")
        asked = {"lines": str(text), "output": str(output), "every": every, "max_batch": self.max_batch}
        seconds: float = self.ask(asked)
        return seconds


def _lines(model: BenchmarkModel, path: Path) -> list[str]:
    """Return lines whose sentences both engines translate whole."""
    sources = (pair.source for pair in read_pairs(path))
    taken = (line for line in sources if all(fits(model.checkpoint, one) for one in split_sentences(line)))
    lines = list(islice(taken, LINES))
    if not lines:
        raise CorpusError(f"{path} has no line that the model takes")
    return lines


def _best(stack: ExitStack, served: ComparedModel, text: Path) -> FileProcess:
    """Return CTranslate2 with the parallelism and the batches that take the least time."""
    engines = [
        stack.enter_context(FileProcess("ctranslate2", served, workers=workers, threads=threads))
        for workers, threads in PARALLELISM
    ]
    tried: list[tuple[float, FileProcess, int]] = []
    for engine in engines:
        engine.seconds(text, every=10 * TRIED_SHARE)
        for engine.max_batch in BATCHES:
            tried.append((engine.seconds(text, every=TRIED_SHARE), engine, engine.max_batch))
    _, best, max_batch = min(tried, key=lambda each: each[0])
    best.max_batch = max_batch
    return best


def _batch_seconds(served: ComparedModel, text: Path, count: int) -> float:
    """Translate a file by `xuanzang batch`, its start included."""
    output = text.with_name("translated-by-batch.txt")
    output.unlink(missing_ok=True)
    shutil.rmtree(f"{output}.job", ignore_errors=True)
    command = [sys.executable, "-m", "xuanzang.command", "batch", "--models", str(served.bundle.parent.parent)]
    command += ["--quiet", "--beam-size", "4", "--length-penalty", "1", str(text), str(output)]
    return _timed(command, output, count)


def _command_seconds(address: str, text: Path, count: int) -> float:
    """Translate a file by the command, its start included.

    Raises:
        ChildProcessError: It failed, or lines are missing.
    """
    output = text.with_name("translated.txt")
    command = [sys.executable, "-m", "xuanzang.client", "translate", "--length-penalty", "1", "--beam-size", "4"]
    command += ["--source", "zh", "--target", "en"]
    command += ["--address", address, "--file", str(text), "--output", str(output)]
    return _timed(command, output, count)


def _timed(command: list[str], output: Path, count: int) -> float:
    started = time.perf_counter()
    status = subprocess.run(command, env=environment(), check=False).returncode
    seconds = time.perf_counter() - started
    if status or len(output.read_text(encoding="utf-8").splitlines()) != count:
        raise ChildProcessError(f"the command ended with status {status}, or lines are missing")
    return seconds
