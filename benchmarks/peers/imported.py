"""The way of a model of another project: its import, export, start and server, its engine and CTranslate2.

    python -m benchmarks.peers.imported --shape 600m --parts import,export,load,serve,engine

The weights are random and of the shape asked for; no published checkpoint is needed. Prints one table.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import torch
from ctranslate2_spec import save_as_ctranslate2

from benchmarks.engines.measurement import EngineProcess
from benchmarks.engines.workload import Workload
from benchmarks.peers.imported_start import measure_starts
from benchmarks.peers.random_directory import LANGUAGES, SHAPES, SPECIAL, Shape, write_random_directory
from xuanzang.model.checkpoint import load_checkpoint

PARTS = ("import", "export", "load", "serve", "engine")
TARGET_TOKENS = 32
"""Of every translation by both engines; weights that are random never end one."""
SOURCE_TOKENS = 24
BATCHES = (1, 8, 32)


class Cost(NamedTuple):
    """Time and memory of a command."""

    seconds: float
    cpu_seconds: float
    """Of all threads; on a busy machine they say more."""
    peak_gigabytes: float
    """Maximum resident memory, pages of mapped files included."""


def main() -> None:
    """Measure the parts of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="600m")
    parser.add_argument("--parts", type=lambda text: text.split(","), default=PARTS, help=", ".join(PARTS))
    parser.add_argument("--folder", type=Path, help="folder to keep the models in (default: a temporary one)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of the engines, in turn (default: 5)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        for row in measure(folder, SHAPES[arguments.shape], arguments.parts, arguments.rounds):
            print(row, flush=True)


def measure(folder: Path, shape: Shape, parts: Sequence[str], rounds: int) -> Iterator[str]:
    """Measure parts, each in a separate process; files of an earlier run in the folder are reused.

    Yields:
        Rows of a table.
    """
    if not (folder / "directory").exists():
        write_random_directory(folder / "directory", shape)
    if "import" in parts:
        yield _row("import", run_import(folder))
    if "export" in parts:
        yield _row("export, default certificate", run_export(folder))
    if "load" in parts:
        found = json.loads(_run(["-m", "benchmarks.peers.imported_load", str(_bundle(folder))]))
        for name, figure in found.items():
            yield f"| {name} | {figure} |"
    if "serve" in parts:
        yield from measure_starts(folder)
    if "engine" in parts:
        yield from compare_engines(folder, shape, rounds)


def run_import(folder: Path) -> Cost:
    """Import the directory."""
    return _cost(["-m", "xuanzang.model", "import", str(folder / "directory"), "--output", str(folder / "checkpoint")])


def run_export(folder: Path) -> Cost:
    """Export the checkpoint without any data."""
    flags = {"checkpoint": folder / "checkpoint", "repository": folder / "models", "model": "random"}
    # Translations of random weights have no text.
    return _cost(
        ["-m", "xuanzang.export", *(f"--{name}={value}" for name, value in flags.items()), "--min-agreement=0"]
    )


def compare_engines(folder: Path, shape: Shape, rounds: int) -> Iterator[str]:
    """Measure both engines in turn on the same sentences, int8, beam 4, one worker with one thread each.

    Yields:
        A row for each size of batch.
    """
    converted = folder / "ctranslate2"
    if not converted.exists():
        save_as_ctranslate2(load_checkpoint(folder / "checkpoint"), converted)
    folders = {"xuanzang": _bundle(folder), "ctranslate2": converted}
    with ExitStack() as stack:
        engines = {
            name: stack.enter_context(EngineProcess(name, path, "int8", workers=1, threads=1))
            for name, path in folders.items()
        }
        for size in BATCHES:
            work = _workload(shape, size)
            seconds: dict[str, list[float]] = {name: [] for name in engines}
            for number in range(rounds + 1):
                for name, engine in engines.items():
                    found = engine.measure(work)
                    _require_length(name, found.target_ids)
                    seconds[name] += [found.seconds] if number else []  # the first warms up
            ours, theirs = (statistics.median(seconds[name]) for name in folders)
            yield f"| batch {size} | {ours:.2f} s | CTranslate2 {theirs:.2f} s | ratio {theirs / ours:.2f} |"


def _require_length(engine: str, target_ids: list[list[int]]) -> None:
    lengths = {len(ids) for ids in target_ids}
    if lengths != {TARGET_TOKENS}:
        raise SystemExit(f"{engine} gives translations of {sorted(lengths)} tokens, not of {TARGET_TOKENS}")


def _workload(shape: Shape, size: int) -> Workload:
    generator = torch.Generator().manual_seed(size)
    words = torch.randint(SPECIAL, shape.vocab_size - len(LANGUAGES) - 1, (size, SOURCE_TOKENS), generator=generator)
    batch = [[*row, 2] for row in words.tolist()]
    return Workload(batches=[batch], beam_size=4, max_target_length=TARGET_TOKENS, min_seconds=0.0)


def _bundle(folder: Path) -> Path:
    return max((folder / "models" / "random").iterdir())


def _row(name: str, cost: Cost) -> str:
    return f"| {name} | {cost.seconds:.0f} s | {cost.cpu_seconds:.0f} s of CPU | {cost.peak_gigabytes:.2f} GB |"


def _cost(command: Sequence[str]) -> Cost:
    """Run Python and measure it."""
    started = time.perf_counter()
    process = subprocess.Popen([sys.executable, *command])
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} failed")
    cpu_seconds = usage.ru_utime + usage.ru_stime
    return Cost(time.perf_counter() - started, cpu_seconds, usage.ru_maxrss * 1024 / 1e9)


def _run(command: Sequence[str]) -> str:
    return subprocess.run([sys.executable, *command], check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
