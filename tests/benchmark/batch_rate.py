"""Lines per second of `xuanzang-batch` and of a saturated server, on the same lines, in turns.

python tests/benchmark/batch_rate.py --rounds 3 --lines 2000 --ray .venv-ray/bin/python

A batch is also run with a single line, which is what it takes to begin and to end: its rate is that of the other lines.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import cycle, islice
from pathlib import Path

from killed_batch import ROOT, sentences
from processes import ServerProcess, free_address

from xuanzang.client import TranslationClient
from xuanzang.translation.v1 import translation_pb2

MODELS = str(ROOT / "server" / "models")
STREAMS = 4
"""Streams of the server's caller: twice as many texts as its batches hold are under way."""
COST = re.compile(r"([0-9.]+) seconds of this run, ([0-9.]+) core-seconds")


def main() -> None:
    """Measure in turns and print medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lines", type=int, default=2000)
    parser.add_argument("--ray", help="interpreter that has Ray; none: Ray is not measured")
    arguments = parser.parse_args()
    lines = list(islice(cycle(sentences()), arguments.lines))
    local = [sys.executable, "-m", "xuanzang.batch"]
    contestants: dict[str, Callable[[list[str]], tuple[float, float]]] = {
        "local, 1 thread": lambda texts: batch([*local, "--cores", "1"], texts),
        "local, 2 threads": lambda texts: batch([*local, "--cores", "2"], texts),
    }
    if arguments.ray:
        ray = [arguments.ray, "-m", "xuanzang.batch", "--engine", "ray", "--workers"]
        contestants["ray, 1 worker"] = lambda texts: batch([*ray, "1"], texts)
        contestants["ray, 2 workers"] = lambda texts: batch([*ray, "2"], texts)
    overheads: dict[str, list[float]] = {name: [] for name in contestants}
    rates: dict[str, list[float]] = {name: [] for name in ("server, 2 workers", *contestants)}
    for _ in range(arguments.rounds):
        rates["server, 2 workers"].append(served(lines))
        print(f"server, 2 workers: {rates['server, 2 workers'][-1]:.0f} lines/s", flush=True)
        for name, run in contestants.items():
            alone, whole = run(lines[:1]), run(lines)
            overheads[name].append(alone[0])
            rates[name].append((len(lines) - 1) / (whole[0] - alone[0]))
            print(
                f"{name}: {rates[name][-1]:.0f} lines/s, {len(lines) / whole[1]:.0f} lines per core-second", flush=True
            )
    for name, values in rates.items():
        pairs = zip(values, rates["server, 2 workers"], strict=True)
        share = statistics.median(mine / server for mine, server in pairs)
        overhead = f", {statistics.median(overheads[name]):.1f} s to begin and end" if name in overheads else ""
        print(f"{name}: {statistics.median(values):.0f} lines/s, {share:.2f} of the server's{overhead}")


def served(lines: list[str]) -> float:
    """Return the lines per second of a server that has always enough to do."""
    address = free_address()
    command = ["-m", "xuanzang.server", "--models", MODELS, "--address", address, "--metrics-address", free_address()]
    request = translation_pb2.TranslateTextRequest(contents=lines[:1]).SerializeToString()
    with ServerProcess(*command, address=address, request=request), TranslationClient(address) as client:
        client.translate(lines[:64])
        with ThreadPoolExecutor(STREAMS) as pool:
            began = time.perf_counter()
            answered = sum(pool.map(partial(streamed, client), [lines[each::STREAMS] for each in range(STREAMS)]))
            return answered / (time.perf_counter() - began)


def streamed(client: TranslationClient, lines: list[str]) -> int:
    """Translate lines over one stream and return how many were answered."""
    return sum(item.error is None for item in client.translate_stream(lines))


def batch(command: list[str], lines: list[str]) -> tuple[float, float]:
    """Run a job and return its seconds and its core-seconds."""
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder, "corpus.txt")
        corpus.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        options = ["--models", MODELS, "--shard-rows", "250", "--quiet"]
        output = subprocess.run(
            [*command, str(corpus), str(Path(folder, "output.txt")), *options],
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ).stdout
        found = COST.search(output)
        assert found, output
        return float(found[1]), float(found[2])


if __name__ == "__main__":
    main()
