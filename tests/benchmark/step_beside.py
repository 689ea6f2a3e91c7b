"""Processor time of a sentence in two checkouts, processes in turn, one thread each and batches that empty.

Prints, in microseconds, the best of the rounds of each and the median of the ratios within a round: all of a sentence,
its share of the encoder's runs, a step of the decoder, and what is done for a sentence outside of graphs. Last, whether
all translations are the same.

$ PYTHONPATH=tests/benchmark taskset -c 0 python tests/benchmark/step_beside.py ../other --rounds 5
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from pathlib import Path

from observation import ROOMS, ROOT
from processes import AskedProcess

MODEL = "server/models/zh-en/2"
CELLS = [(beam, batch, count) for beam in (1, 4) for batch, count in ((1, 16), (4, 64), (8, 64), (16, 64), (32, 128))]
FIGURES = ("sentence", "encoder", "step", "outside")


def checkout(root: Path) -> AskedProcess:
    """Start a process with the code and the model of a checkout."""
    path = os.pathsep.join((*(str(root.resolve() / room / "src") for room in ROOMS), str(Path(__file__).parent)))
    return AskedProcess(__file__, str(root.resolve()), "--worker", variables={"PYTHONPATH": path})


def work(root: Path) -> None:
    """Measure the cells that standard input names with the code on the path."""
    from sentencepiece import SentencePieceProcessor
    from step_time import SENTENCES, measure

    from xuanzang.server.bundles.repository import load_bundle
    from xuanzang.server.engine.hardware import flush_denormals
    from xuanzang.server.engine.runtime.sessions import Sessions

    flush_denormals()
    sessions = Sessions(load_bundle(root / MODEL), provider="cpu", intra_op_threads=1)
    tokenizer = SentencePieceProcessor(model_file=str(root / MODEL / "source.spm"))
    lines = SENTENCES.read_text(encoding="utf-8").splitlines()
    sources = [[*tokenizer.encode(line.split("\t")[0]), sessions.special_ids.eos_id] for line in lines]
    for line in sys.stdin:
        beam, batch, count = CELLS[int(line)]
        print(json.dumps(measure(sessions, sources[:count], beam, batch)._asdict()), flush=True)


def compare(before: AskedProcess, here: AskedProcess, cell: int, rounds: int) -> None:
    """Print the figures of a cell."""
    turns = [(before.ask(cell), here.ask(cell)) for _ in range(rounds + 1)][1:]
    beam, batch, _ = CELLS[cell]
    parts = [
        f"{name} {min(old[name] for old, _ in turns):.0f} → {min(new[name] for _, new in turns):.0f} × "
        f"{statistics.median(new[name] / old[name] for old, new in turns):.2f}"
        for name in FIGURES
    ]
    same = all(old["translations"] == new["translations"] for old, new in turns)
    print(f"beam {beam}, {batch:2} at once: {', '.join(parts)}, same: {same}", flush=True)


def main() -> None:
    """Compare another checkout with this one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, help="root of the other checkout, with its kernels built")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(arguments.before)
        return
    with checkout(arguments.before) as before, checkout(ROOT) as here:
        for cell in range(len(CELLS)):
            compare(before, here, cell, arguments.rounds)


if __name__ == "__main__":
    main()
