"""Open a bundle as the server does, translate, and print seconds and resident memory as JSON."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from workload import Workload
from xuanzang_engine import Xuanzang

from xuanzang.server.bundles.repository import load_bundle


def main() -> None:
    """Measure the bundle of the command line."""
    folder = Path(sys.argv[1])
    figures = {}
    started = time.perf_counter()
    load_bundle(folder)
    figures["verify digests, graphs and weights"] = f"{time.perf_counter() - started:.1f} s"
    started = time.perf_counter()
    engine = Xuanzang(folder, workers=1, threads=1, shortlist=False)
    figures["open graphs"] = f"{time.perf_counter() - started:.1f} s"
    figures["memory of the open graphs"] = _resident()
    batch = [[*range(100, 124), 2]] * 8
    engine.translate(batch, Workload(batches=[batch], beam_size=4, max_target_length=32, min_seconds=0.0))
    figures["memory after 8 sentences, beam 4"] = _resident()
    print(json.dumps(figures))


def _resident() -> str:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    kilobytes = {
        name: int(value.split()[0])
        for name, _, value in (line.partition(":") for line in lines)
        if "Rss" in name or name == "VmRSS"
    }
    whole, files = (kilobytes[name] * 1024 / 1e9 for name in ("VmRSS", "RssFile"))
    return f"{whole:.2f} GB, {files:.2f} of it mapped files"


if __name__ == "__main__":
    main()
