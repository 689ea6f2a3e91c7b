"""Rolling reloads under load: failed calls, and latency with and without them; memory before, with and after a model.

    python -m benchmarks.rolling_reload FILE-WITH-A-SENTENCE-A-LINE --rounds 3 --json reloads.json

Starts a server on a copy of one bundle, measures its capacity with a closed loop, and puts open loops of a share of it
on the server, in turn a calm one and one during which versions replace each other: each is copied into the folder,
loaded by command, and the one before is unloaded. The digest of each is new to the server, so each is tried in another
process, too. Prints a table and, with --json, writes the figures.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc

from benchmarks.harness.bundled_model import newest_bundle, request_of
from benchmarks.harness.loads import Callers, Load, LoadResult
from benchmarks.harness.processes import METHOD, ServerProcess, free_address
from xuanzang.admin.v1 import admin_pb2, admin_pb2_grpc

CALLERS = 64
LENGTHS = (4, 60)
"""Minimum and maximum characters of the sentences that are sent."""
TEXTS = 2000
IDLE_SECONDS = 12.0
"""Longer than a worker keeps its memory without sentences."""
PAUSE_SECONDS = 2.0
"""Between the end of one reload and the beginning of the next."""


class Models:
    """The folder of a server, and its administration service."""

    def __init__(self, bundle: Path, folder: Path, address: str) -> None:
        self._bundle = bundle
        self._folder = folder
        self.version = int(json.loads((bundle / "manifest.json").read_text())["version"])
        self.name = bundle.parent.name
        self.write(self.version)
        self._stub: Any = admin_pb2_grpc.ModelServiceStub(grpc.insecure_channel(address))
        self.live = [self.version]
        self.load_seconds: list[float] = []

    def write(self, version: int) -> None:
        """Copy the bundle into the folder under another version."""
        written = Path(shutil.copytree(self._bundle, self._folder / f".{version}"))
        manifest = json.loads((written / "manifest.json").read_text())
        (written / "manifest.json").write_text(json.dumps(manifest | {"version": version}))
        target = self._folder / self.name / str(version)
        target.parent.mkdir(exist_ok=True)
        written.rename(target)

    def load_next(self) -> None:
        """Load another version, which becomes the default."""
        self.write(self.version + 1)
        began = time.perf_counter()
        self._stub.LoadModel(admin_pb2.LoadModelRequest(name=self.name, version=str(self.version + 1)))
        self.load_seconds.append(time.perf_counter() - began)
        self.version += 1
        self.live.append(self.version)

    def unload(self, version: int) -> None:
        """Unload a version and remove its folder."""
        self._stub.UnloadModel(admin_pb2.UnloadModelRequest(name=self.name, version=str(version)))
        shutil.rmtree(self._folder / self.name / str(version))
        self.live.remove(version)

    def replace(self) -> None:
        """Load another version, and unload the one before."""
        self.load_next()
        self.unload(self.live[0])


@contextmanager
def repeating(work: Callable[[], object], *, pause_seconds: float) -> Iterator[None]:
    """Do some work again and again, in a thread."""
    done = threading.Event()

    def repeat() -> None:
        while not done.is_set():
            work()
            done.wait(pause_seconds)

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def translate(address: str, texts: Sequence[str]) -> None:
    """Translate texts with the default version."""
    with grpc.insecure_channel(address) as channel:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(METHOD)
        call(request_of(*texts))


def measure_memory(server: ServerProcess, models: Models, texts: Sequence[str], rounds: int) -> list[dict[str, float]]:
    """Return the resident megabytes before, with and after one more version, of each round."""
    rows = []
    for _ in range(rounds):
        # Idle workers have given their memory back by then.
        time.sleep(IDLE_SECONDS)
        row = {"before": server.resident_megabytes()}
        models.load_next()
        row["loaded"] = server.resident_megabytes()
        translate(server.address, texts)
        row["used"] = server.resident_megabytes()
        models.unload(models.version)
        row["after"] = server.resident_megabytes()
        print("MB " + ", ".join(f"{name} {value:.1f}" for name, value in row.items()), flush=True)
        rows.append(row)
    return rows


def measure_latency(
    address: str, models: Models, callers: Callers, args: argparse.Namespace
) -> dict[str, list[LoadResult]]:
    """Return the results of open loops, calm ones and those with reloads in turn."""
    load = Load(
        address=address, rate=None, callers=CALLERS, seconds=args.seconds / 4, warm_up_seconds=args.seconds / 12, seed=0
    )
    capacity = callers.call(load).sentences_per_second
    load = dataclasses.replace(load, rate=args.share * capacity, seconds=args.seconds, warm_up_seconds=1)
    results: dict[str, list[LoadResult]] = {"calm": [], "reload": []}
    for seed in range(args.rounds):
        for kind, found in results.items():
            with repeating(models.replace, pause_seconds=PAUSE_SECONDS) if kind == "reload" else ExitStack():
                found.append(callers.call(dataclasses.replace(load, seed=seed)))
            figures = found[-1]
            print(
                f"{kind}: {args.share:.0%} of {capacity:.0f}/s, p50 {figures.p50_ms:.0f} p95 {figures.p95_ms:.0f} "
                f"p99 {figures.p99_ms:.0f} ms, {figures.requests} requests, {figures.errors} failed, "
                f"{len(models.load_seconds)} versions so far",
                flush=True,
            )
    ratio = statistics.median(each.p99_ms for each in results["reload"])
    ratio /= statistics.median(each.p99_ms for each in results["calm"])
    print(f"p99 with reloads / calm: {ratio:.2f}; a load takes {statistics.median(models.load_seconds):.1f} s")
    return results


def main() -> None:
    """Start a server and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", type=Path, help="file with a sentence a line")
    parser.add_argument("--bundle", type=Path, default=newest_bundle())
    parser.add_argument("--share", type=float, default=0.6, help="arrivals, as a share of the capacity")
    parser.add_argument("--seconds", type=float, default=120, help="of each loop")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--memory-rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    lines = args.texts.read_text(encoding="utf-8").splitlines()
    texts = list(itertools.islice((line for line in lines if LENGTHS[0] <= len(line) <= LENGTHS[1]), TEXTS))
    request = request_of(texts[0])
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (scratch / "models").mkdir()
        address, admin = free_address(), free_address()
        models = Models(args.bundle, scratch / "models", admin)
        flags = ["--models", str(scratch / "models"), "--address", address, "--admin-address", admin]
        flags += ["--metrics-address", "127.0.0.1:0", "--log-level", "warning"]
        flags += ["--tried-bundles", str(scratch / "tried")]
        server = stack.enter_context(ServerProcess("-m", "xuanzang.server", *flags, address=address, request=request))
        translate(address, texts[:512])
        memory = measure_memory(server, models, texts[:512], args.memory_rounds)
        results = measure_latency(address, models, Callers(texts, scratch), args) if args.rounds else {}
    if args.json:
        latency = {kind: [dataclasses.asdict(each) for each in found] for kind, found in results.items()}
        args.json.write_text(json.dumps({"memory_mb": memory, **latency}, indent=2) + "\n")


if __name__ == "__main__":
    main()
