"""Lines per second of `xuanzang-batch` and of a saturated server, on the same lines, in turns.

python tests/benchmark/batch_rate.py --rounds 3 --lines 2000 --ray .venv-ray/bin/python

A batch is also run with a single line, which is what it takes to begin and to end: its rate is that of the other lines.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

from killed_batch import ROOT, sentences
from processes import ServerProcess, free_address

from xuanzang.client import TranslationClient
from xuanzang.translation.v1 import translation_pb2

MODELS = str(ROOT / "server" / "models")
SERVER = "server, 2 workers"
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
    contestants = batches(arguments.ray)
    overheads: dict[str, list[float]] = {name: [] for name in contestants}
    rates: dict[str, list[Rate]] = {name: [] for name in (SERVER, *contestants)}
    for _ in range(arguments.rounds):
        rates[SERVER].append(served(lines))
        for name, run in contestants.items():
            alone, whole = run(lines[:1]), run(lines)
            overheads[name].append(alone[0])
            rates[name].append(Rate(*((len(lines) - 1) / (all_ - one) for all_, one in zip(whole, alone, strict=True))))
            print(f"{name}: {rates[name][-1]}", flush=True)
    print_ratios(rates)
    for name, seconds in overheads.items():
        print(f"{name}: {statistics.median(seconds):.1f} s to begin and end")


def batches(ray_interpreter: str | None) -> dict[str, Callable[[list[str]], tuple[float, float]]]:
    """Return the ways to translate lines as a batch, by name.

    Args:
        ray_interpreter: Interpreter that has Ray; None: Ray is left out.
    """
    local = [sys.executable, "-m", "xuanzang.batch"]
    commands = {"local, 1 thread": [*local, "--cores", "1"], "local, 2 threads": [*local, "--cores", "2"]}
    if ray_interpreter:
        ray = [ray_interpreter, "-m", "xuanzang.batch", "--engine", "ray", "--workers"]
        commands |= {"ray, 1 worker": [*ray, "1"], "ray, 2 workers": [*ray, "2"]}
    return {name: partial(batch, command) for name, command in commands.items()}


def print_ratios(rates: Mapping[str, Sequence[Rate]]) -> None:
    """Print the medians of the rates in each round, divided by the server's."""
    for name, values in rates.items():
        second, core_second = (
            statistics.median(mine / server for mine, server in zip(column, server_column, strict=True))
            for column, server_column in zip(zip(*values, strict=True), zip(*rates[SERVER], strict=True), strict=True)
        )
        print(f"{name}: {second:.2f} of the server's lines per second, {core_second:.2f} per core-second")


class Rate(NamedTuple):
    """Lines per second, and per second of a core that the translating processes used."""

    per_second: float
    per_core_second: float


def served(lines: list[str]) -> Rate:
    """Measure a server that has always enough to do."""
    address = free_address()
    command = ["-m", "xuanzang.server", "--models", MODELS, "--address", address, "--metrics-address", free_address()]
    request = translation_pb2.TranslateTextRequest(contents=lines[:1]).SerializeToString()
    server = ServerProcess(*command, "--log-level", "error", address=address, request=request)
    with server, TranslationClient(address) as client, ThreadPoolExecutor(STREAMS) as pool:
        client.translate(lines[:64], source_language="zh")
        began, used = time.perf_counter(), core_seconds(server.pid)
        answered = sum(pool.map(partial(streamed, client), [lines[each::STREAMS] for each in range(STREAMS)]))
        rate = Rate(answered / (time.perf_counter() - began), answered / (core_seconds(server.pid) - used))
    print(f"{SERVER}: {rate}", flush=True)
    return rate


def core_seconds(pid: int) -> float:
    """Return the processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def streamed(client: TranslationClient, lines: list[str]) -> int:
    """Translate lines over one stream and return how many were answered."""
    return sum(item.error is None for item in client.translate_stream(lines, source_language="zh"))


def batch(command: list[str], lines: list[str]) -> tuple[float, float]:
    """Run a job and return its seconds and its core-seconds."""
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder, "corpus.txt")
        corpus.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        options = ["--models", MODELS, "--model", "zh-en", "--shard-rows", "250", "--quiet"]
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
