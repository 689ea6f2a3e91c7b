"""Our engine, CTranslate2, transformers, Optimum with onnxruntime, and OpenVINO on the same weights.

    python -m benchmarks.peers.comparison --engines ctranslate2,xuanzang --rounds 3

The weights are random and of the shape of OPUS-MT's models, in transformers' format. Prints one table. `.ci/peers
optimum openvino` installs the last two, each in its own environment.
"""

from __future__ import annotations

import argparse
import dataclasses
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from benchmarks.engines.workload import Workload
from benchmarks.harness.processes import AskedProcess, cpu_times, share_of_others
from benchmarks.peers.models import DIRECTORY, ENGINES, PEERS, ROOT, Peer, Setup, start, versions_of
from benchmarks.peers.random_directory import SHAPES
from benchmarks.peers.random_marian import END, FIRST_WORD, write_random_marian
from benchmarks.peers.table import Cell, Result, as_table

CELLS = tuple(Cell(beam_size, batch) for beam_size in (1, 4) for batch in (1, 8, 32))
SOURCE_TOKENS = 24
TARGET_TOKENS = 32
"""Of every translation by every engine; these weights never end one."""
SETTLE_SECONDS = 0.1
"""Pause before a measurement, for the threads of the previous engine to stop spinning."""


def main() -> None:
    """Measure the engines of the command line."""
    arguments = parser().parse_args()
    shape = SHAPES[arguments.shape]
    peers = [peer for peer in PEERS if peer.engine in arguments.engines]
    works = {cell: workload(cell, shape.vocab_size) for cell in CELLS}
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        if not (folder / DIRECTORY).exists():
            write_random_marian(folder / DIRECTORY, shape)
        before = cpu_times()
        setup = Setup(folder=folder, environments=arguments.environments, threads=arguments.threads)
        results = measure(peers, works, arguments.rounds, setup)
        others = share_of_others(before, cpu_times())
    print(as_table(results, CELLS))
    print(
        f"\nThreads of each engine: {setup.threads}. Other programs had {others:.0%} of the CPU, preparation included."
    )


def parser() -> argparse.ArgumentParser:
    """Return the command line parser."""
    result = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    result.add_argument("--shape", choices=SHAPES, default="77m", help="sizes of the model (default: 77m, opus-mt's)")
    result.add_argument("--engines", type=lambda text: text.split(","), default=ENGINES, help=", ".join(ENGINES))
    result.add_argument("--rounds", type=int, default=3, help="rounds of the engines, in turn (default: 3)")
    result.add_argument("--threads", type=int, default=2, help="threads of each engine (default: 2)")
    result.add_argument("--folder", type=Path, help="folder to keep the models in (default: a temporary one)")
    result.add_argument("--environments", type=Path, default=ROOT, help="folder of .venv-peers")
    return result


def workload(cell: Cell, vocab_size: int) -> Workload:
    """Make a batch of random sentences of equal length."""
    generator = torch.Generator().manual_seed(cell.batch)
    words = torch.randint(FIRST_WORD, vocab_size - 1, (cell.batch, SOURCE_TOKENS), generator=generator)
    batch = [[*row, END] for row in words.tolist()]
    return Workload(batches=[batch], beam_size=cell.beam_size, max_target_length=TARGET_TOKENS, min_seconds=0.0)


def measure(peers: Sequence[Peer], works: Mapping[Cell, Workload], rounds: int, setup: Setup) -> list[Result]:
    """Measure all engines in turn; a failed one is then left out.

    Args:
        peers: Engines with their precisions.
        rounds: Counted rounds, after a warm-up.
        setup: Folders and threads.
    """
    with ExitStack() as stack:
        runners = [Runner(peer, setup, stack) for peer in peers]
        for runner in tqdm(runners, desc="preparing"):
            runner.prepare(works[CELLS[0]])
        with tqdm(total=len(works) * (rounds + 1), desc="measuring") as progress:
            for cell, work in works.items():
                for number in range(rounds + 1):
                    first = number % len(runners)
                    for runner in runners[first:] + runners[:first]:
                        runner.run(cell, work, counts=number > 0)
                    progress.update()
    return [runner.result for runner in runners]


class Runner:
    """An engine that is measured until it fails."""

    def __init__(self, peer: Peer, setup: Setup, stack: ExitStack) -> None:
        """Open the log of an engine; its process is started by `prepare`.

        Args:
            peer: Engine and precision.
            setup: Folders and threads.
            stack: Exit stack that ends the process.
        """
        self.result = Result(peer=peer)
        self._setup, self._stack = setup, stack
        self._log = setup.folder / f"{peer.engine}-{peer.precision}.log"

    def prepare(self, work: Workload) -> None:
        """Convert the model, start the process, and wait for its first answer."""
        peer = self.result.peer
        try:
            self.result.versions = versions_of(peer.engine, self._setup.environments)
            log = self._stack.enter_context(self._log.open("w", encoding="utf-8"))
            self._process: AskedProcess = self._stack.enter_context(start(peer, self._setup, log))
        except FileNotFoundError as error:
            self.result.failure = str(error)
        except subprocess.CalledProcessError:
            self.result.failure = self._last_line()
        else:
            self._ask(work)

    def run(self, cell: Cell, work: Workload, *, counts: bool) -> None:
        """Translate once, and keep the time if it counts."""
        if self.result.failure:
            return
        time.sleep(SETTLE_SECONDS)
        found = self._ask(work)
        if found and counts:
            self.result.seconds.setdefault(cell, []).append(found["seconds"])
            self.result.target_ids[cell] = found["target_ids"]

    def _ask(self, work: Workload) -> dict[str, Any] | None:
        """Return the answer to a workload, None if there is none or it is not as long as it must be."""
        try:
            found: dict[str, Any] = self._process.ask(dataclasses.asdict(work))
        except (ChildProcessError, BrokenPipeError):
            self.result.failure = self._last_line()
            return None
        lengths = sorted({len(ids) for ids in found["target_ids"]})
        if lengths != [TARGET_TOKENS]:
            self.result.failure = f"translations of {lengths} tokens, not of {TARGET_TOKENS}"
            return None
        return found

    def _last_line(self) -> str:
        """Return what the process said last, which is the message of its error."""
        lines = self._log.read_text(encoding="utf-8").split("\n") if self._log.exists() else []
        return next((line.strip() for line in reversed(lines) if line.strip()), "ended without a word")[:160]


if __name__ == "__main__":
    main()
