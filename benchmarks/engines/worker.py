"""Process of one engine: reads a workload from each line of standard input, answers with times and target ids."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path

from benchmarks.engines.measurement import Measurement
from benchmarks.engines.workload import Engine, Workload


def main() -> None:
    """Load an engine and answer workloads until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", choices=["xuanzang", "ctranslate2"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("precision", choices=["float32", "int8"])
    parser.add_argument("workers", type=int)
    parser.add_argument("threads", type=int)
    parser.add_argument("--shortlist", action="store_true")
    engine = load(**vars(parser.parse_args()))
    for line in sys.stdin:
        measurement = measure(engine, Workload(**json.loads(line)))
        print(json.dumps(dataclasses.asdict(measurement)), flush=True)


def load(*, engine: str, folder: Path, precision: str, workers: int, threads: int, shortlist: bool) -> Engine:
    """Return an engine with its model loaded; the other engine is not imported."""
    if engine == "xuanzang":
        from benchmarks.engines.xuanzang_engine import Xuanzang

        return Xuanzang(folder, workers=workers, threads=threads, shortlist=shortlist)
    from benchmarks.engines.ctranslate2_engine import CTranslate2

    return CTranslate2(folder, precision=precision, workers=workers, threads=threads, shortlist=shortlist)


def measure(engine: Engine, workload: Workload) -> Measurement:
    """Translate all batches, repeatedly until the minimum duration has passed."""
    seconds, passes = 0.0, 0
    target_ids: list[list[int]] = []
    while not passes or seconds < workload.min_seconds:
        translated = [engine.translate(batch, workload) for batch in workload.batches]
        seconds += sum(batch.seconds for batch in translated)
        passes += 1
        target_ids = [ids for batch in translated for ids in batch.target_ids]
    return Measurement(seconds=seconds / passes, target_ids=target_ids)


if __name__ == "__main__":
    main()
