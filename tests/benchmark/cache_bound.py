"""Memory for keys and values under a hostile mix: all beam sizes, all lengths, some with details of their tokens.

Each round translates the same requests at once, under each limit in turn, and prints the greatest memory held for keys
and values and reserved, as the metrics have them, the greatest resident memory, and sentences per second.

$ PYTHONPATH=tests/benchmark python tests/benchmark/cache_bound.py --limits 20000 200 50
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import multiprocessing
import os
import random
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from prometheus_client import CollectorRegistry

from xuanzang.server.engine.engine import Engine
from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.engine.types import DecodingOptions
from xuanzang.server.metrics import Metrics

HERE = Path(__file__).resolve().parent
MODELS = HERE.parents[1] / "server" / "models"
SAMPLE_SECONDS = 0.005
MEGABYTE = 1e6


class Peaks:
    """Greatest memory seen so far, in bytes."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self.held = self.reserved = self.resident = 0.0

    async def watch(self) -> None:
        """Look at the memory until cancelled."""
        while True:
            self.held = max(self.held, self._total("nmt_cache_bytes"))
            self.reserved = max(self.reserved, self._total("nmt_cache_reserved_bytes"))
            self.resident = max(self.resident, _resident())
            await asyncio.sleep(SAMPLE_SECONDS)

    def _total(self, name: str) -> float:
        families = self._metrics.registry.restricted_registry([name]).collect()
        return sum(sample.value for family in families for sample in family.samples)


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def requests(count: int, seed: int) -> list[tuple[str, int, bool]]:
    """Draw texts of all lengths, beam sizes from 1 to 16, and whether scores and alignments are wanted."""
    rng = random.Random(seed)
    lines = (HERE / "sentences.tsv").read_text(encoding="utf-8").splitlines()
    sentences = [line.split("\t")[0] for line in lines]
    return [(rng.choice(sentences), rng.randint(1, 16), rng.random() < 0.25) for _ in range(count)]


async def measure(limit: int, drawn: Sequence[tuple[str, int, bool]]) -> str:
    """Translate requests under a limit, all at once, and return a row of the table."""
    metrics = Metrics(CollectorRegistry())
    engine = Engine(MODELS, settings=EngineSettings(max_cache_mb=limit), metrics=metrics)
    await engine.start()
    peaks = Peaks(metrics)
    watching = asyncio.create_task(peaks.watch())
    model = next(each for each in engine.models if each.name == "zh-en")
    began = time.perf_counter()

    async def translate(text: str, beam_size: int, details: bool) -> None:
        options: DecodingOptions = dataclasses.replace(
            model.default_options, beam_size=beam_size, token_details=details, max_target_length=160
        )
        await engine.translate([text], model=model, options=options, deadline=None)

    await asyncio.gather(*(translate(*each) for each in drawn))
    seconds = time.perf_counter() - began
    watching.cancel()
    await engine.join(timeout=30)
    figures = [peak / MEGABYTE for peak in (peaks.held, peaks.reserved, peaks.resident)]
    return f"| {limit} | " + " | ".join(f"{figure:.1f}" for figure in figures) + f" | {len(drawn) / seconds:.1f} |"


def row(limit: int, count: int, seed: int) -> str:
    """Measure a limit in a process that has measured none before."""
    return asyncio.run(measure(limit, requests(count, seed)))


def main() -> None:
    """Measure the limits in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limits", type=int, nargs="+", default=[20_000, 200, 50], metavar="MB")
    parser.add_argument("--requests", type=int, default=400, metavar="N")
    parser.add_argument("--rounds", type=int, default=2, metavar="N")
    parsed = parser.parse_args()
    print("| --max-cache-mb | held, MB | reserved, MB | resident, MB | sentences/s |\n|---|---|---|---|---|")
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context, max_tasks_per_child=1) as processes:
        for seed in range(parsed.rounds):
            for limit in parsed.limits:
                print(processes.submit(row, limit, parsed.requests, seed).result(), flush=True)


if __name__ == "__main__":
    main()
