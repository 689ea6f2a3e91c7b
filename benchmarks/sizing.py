"""Figures to size servers with: rate of a core, memory of a model and of a worker.

    python -m benchmarks.sizing --seconds 8

Starts a server with one worker and one with two for each model, puts a closed loop on each, and prints sentences per
second and core, and the memory of the process: loaded and idle, and what a second worker adds under load. The memory of
a second model is what a server with a copy of the model takes more. The base-size model has weights filled with copies
of the bundled model's (widening.py), whose cost is that of trained ones.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.engines.models import load_model, written_bundle
from benchmarks.harness.bundled_model import SENTENCES, ServedModel, bundled_model, newest_bundle, our_server
from benchmarks.harness.loads import Callers, Load

CALLERS_PER_WORKER = 48
WARM_UP_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Figures of one server."""

    loaded_megabytes: float
    """VmRSS after the first translation."""
    busy_megabytes: float
    """VmRSS after a closed loop."""
    sentences_per_second: float


def measure(repository: Path, texts: Sequence[str], workers: int, seconds: float, scratch: Path) -> Figures:
    """Measure a server with a number of workers."""
    model = ServedModel(bundle=repository / "copy-0" / "1", texts=texts, asked_for="copy-0")
    with our_server(model, "--workers", str(workers), "--tried-bundles", str(scratch / "tried")) as server:
        loaded = server.resident_megabytes()
        load = Load(
            address=server.address,
            rate=None,
            callers=CALLERS_PER_WORKER * workers,
            seconds=seconds,
            warm_up_seconds=WARM_UP_SECONDS,
            seed=0,
        )
        rate = Callers(texts, scratch).call(load).sentences_per_second if seconds else 0.0
        return Figures(loaded_megabytes=loaded, busy_megabytes=server.resident_megabytes(), sentences_per_second=rate)


def row(name: str, bundle: Path, texts: Sequence[str], seconds: float, scratch: Path) -> str:
    """Measure a model, and return a row of the table."""
    alone, doubled = (_repository(scratch / f"{name}-{count}", bundle, count) for count in (1, 2))
    one = measure(alone, texts, 1, seconds, scratch)
    two = measure(alone, texts, 2, seconds, scratch)
    pair = measure(doubled, texts, 1, 0.0, scratch)
    weights = (bundle / "weights.bin").stat().st_size / 1e6
    cells = (
        f"{weights:.0f}",
        f"{one.sentences_per_second:.1f}",
        f"{two.sentences_per_second / 2:.1f}",
        f"{one.loaded_megabytes:.0f}",
        f"{pair.loaded_megabytes - one.loaded_megabytes:.0f}",
        f"{one.busy_megabytes - one.loaded_megabytes:.0f}",
        f"{two.busy_megabytes - one.busy_megabytes:.0f}",
    )
    return f"| {name} | {' | '.join(cells)} |"


def _repository(folder: Path, bundle: Path, count: int) -> Path:
    """Make a folder of models with some copies of a bundle, under names of their own."""
    for number in range(count):
        copy = Path(shutil.copytree(bundle, folder / f"copy-{number}" / "1"))
        manifest = json.loads((copy / "manifest.json").read_text(encoding="utf-8"))
        changed = manifest | {"model": f"copy-{number}", "version": 1}
        (copy / "manifest.json").write_text(json.dumps(changed), encoding="utf-8")
    return folder


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, metavar="SECONDS", help="duration of a closed loop")
    parser.add_argument("--base", type=Path, metavar="BUNDLE", help="base-size bundle written before; unset: write it")
    parsed = parser.parse_args()
    bundle, texts = newest_bundle(), bundled_model().texts
    print(
        "| model | weights, MB | sentences/s of one worker | of two, each | loaded, MB | second model, MB "
        "| busy worker, MB | second worker, MB |\n|---|---|---|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        print(row("bundled", bundle, texts, parsed.seconds, scratch), flush=True)
        base = parsed.base
        if base is None:
            model = load_model("base", bundle=bundle, sentences=SENTENCES, scratch=scratch)
            base = written_bundle(model, "int8", SENTENCES, scratch)
        print(row("base", base, texts, parsed.seconds, scratch))


if __name__ == "__main__":
    main()
