"""Open a bundle as the server does, translate, and print seconds and resident memory as JSON."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from processes import resident_bytes
from xuanzang_engine import Xuanzang

from xuanzang.server.bundles.repository import load_bundle


def main() -> None:
    """Measure the bundle of the command line."""
    folder = Path(sys.argv[1])
    figures = {}
    started = time.perf_counter()
    load_bundle(folder)
    figures["verify files and graphs"] = f"{time.perf_counter() - started:.1f} s"
    started = time.perf_counter()
    engine = Xuanzang(folder, workers=1, threads=1, shortlist=False)
    figures["open graphs"] = f"{time.perf_counter() - started:.1f} s"
    figures["memory, open"] = f"{resident_bytes() / 1e9:.2f} GB"
    del engine
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
