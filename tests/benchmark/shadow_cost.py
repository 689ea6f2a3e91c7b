"""What callers notice of a shadow and of the gate: latency with neither, with a shadow of every request, with the gate.

Starts a server on two versions of one bundle, measures its capacity with a closed loop, and puts open loops of a share
of it on the server, in turn without anything, with the other version as the shadow of all requests, and while the other
version is judged again and again by a golden set. Prints p50, p95 and p99, what became of the copies, and the ratios.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import re
import statistics
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import grpc
from load import Load, LoadResult
from processes import ServerProcess, free_address
from rolling_reload import CALLERS, LENGTHS, TEXTS, Models, repeating
from served import Callers

from xuanzang.admin.v1 import admin_pb2 as pb
from xuanzang.admin.v1 import admin_pb2_grpc
from xuanzang.translation.v1 import translation_pb2

PERCENTILES = ("p50_ms", "p95_ms", "p99_ms")
GOLDEN_LINES = 200


@contextmanager
def shadowing(stub: Any, name: str, version: int) -> Iterator[None]:
    """Let a version be the shadow of all requests."""

    def share(shadow: float) -> None:
        stub.SetModelTraffic(pb.SetModelTrafficRequest(name=name, version=str(version), shadow_share=shadow))

    share(1.0)
    try:
        yield
    finally:
        share(0.0)


@contextmanager
def judging(stub: Any, name: str, version: int) -> Iterator[None]:
    """Let a version be judged again and again."""
    judged = 0

    def judge() -> None:
        nonlocal judged
        stub.EvaluateModel(pb.EvaluateModelRequest(name=name, version=str(version)))
        judged += 1

    with repeating(judge, pause_seconds=0):
        yield
    print(f"judged {judged} times", flush=True)


def measure(
    address: str, callers: Callers, beside: Mapping[str, Callable[[], AbstractContextManager[None]]], args: Any
) -> dict[str, list[LoadResult]]:
    """Return the results of open loops, with each thing beside them in turn."""
    load = Load(
        address=address, rate=None, callers=CALLERS, seconds=args.seconds / 2, warm_up_seconds=args.seconds / 6, seed=0
    )
    capacity = callers.call(load).sentences_per_second
    load = dataclasses.replace(load, rate=args.share * capacity, seconds=args.seconds, warm_up_seconds=2)
    results: dict[str, list[LoadResult]] = {kind: [] for kind in beside}
    for seed, kind in itertools.product(range(args.rounds), beside):
        with beside[kind]():
            results[kind].append(callers.call(dataclasses.replace(load, seed=seed)))
        figures = results[kind][-1]
        times = ", ".join(f"{name} {getattr(figures, name):.0f}" for name in PERCENTILES)
        print(f"{kind}: {args.share:.0%} of {capacity:.0f}/s, {times}, {figures.errors} failed", flush=True)
    return results


def print_ratios(results: Mapping[str, list[LoadResult]]) -> None:
    """Print the medians of the percentiles over the rounds, by those of the first kind."""
    medians = {
        kind: [statistics.median(getattr(each, name) for each in found) for name in PERCENTILES]
        for kind, found in results.items()
    }
    base = next(iter(medians.values()))
    for kind, found in medians.items():
        ratios = (f"{name} {value / of:.2f}" for name, value, of in zip(PERCENTILES, found, base, strict=True))
        print(f"{kind}: {', '.join(ratios)} times those without")


def main() -> None:
    """Start a server and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pairs", type=Path, nargs="?", default=Path(__file__).with_name("sentences.tsv"))
    parser.add_argument("--bundle", type=Path, default=Path("server/models/zh-en/2"))
    parser.add_argument("--share", type=float, default=0.4, help="arrivals, as a share of the capacity")
    parser.add_argument("--seconds", type=float, default=20, help="of each loop")
    parser.add_argument("--rounds", type=int, default=3)
    measure_beside(parser.parse_args())


def measure_beside(args: argparse.Namespace) -> None:
    """Start a server with two versions of a model, and print latencies beside shadowing and the gate."""
    pairs = [line.split("\t")[:2] for line in args.pairs.read_text(encoding="utf-8").splitlines()]
    pairs = [pair for pair in pairs if LENGTHS[0] <= len(pair[0]) <= LENGTHS[1]][:TEXTS]
    texts = [source for source, _ in pairs]
    request = translation_pb2.TranslateTextRequest(contents=texts[:1]).SerializeToString()
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        address, admin, metrics = free_address(), free_address(), free_address()
        models = prepared_folders(args.bundle, pairs, scratch, admin)
        flags = server_flags(scratch, address=address, admin=admin, metrics=metrics)
        stack.enter_context(ServerProcess("-m", "xuanzang.server", *flags, address=address, request=request))
        candidate = models.version
        models.load_next()
        stub = admin_pb2_grpc.ModelServiceStub(stack.enter_context(grpc.insecure_channel(admin)))
        beside: dict[str, Callable[[], AbstractContextManager[None]]] = {
            "without": nullcontext,
            "shadow": lambda: shadowing(stub, models.name, candidate),
            "gate": lambda: judging(stub, models.name, candidate),
        }
        print_ratios(measure(address, Callers(stack, texts, scratch), beside, args))
        print_shadow_counts(metrics)


def prepared_folders(bundle: Path, pairs: Sequence[Sequence[str]], scratch: Path, admin: str) -> Models:
    """Make the folders of the models and of the golden sets."""
    (scratch / "models").mkdir()
    (scratch / "golden").mkdir()
    models = Models(bundle, scratch / "models", admin)
    golden = "".join("\t".join(pair) + "\n" for pair in pairs[:GOLDEN_LINES])
    (scratch / "golden" / f"{models.name}.tsv").write_text(golden, encoding="utf-8")
    return models


def server_flags(scratch: Path, *, address: str, admin: str, metrics: str) -> list[str]:
    """Return the flags of a server with the folders of `prepared_folders`."""
    flags = ["--models", str(scratch / "models"), "--golden-sets", str(scratch / "golden"), "--address", address]
    flags += ["--admin-address", admin, "--metrics-address", metrics, "--log-level", "warning"]
    return [*flags, "--tried-bundles", str(scratch / "tried")]


def print_shadow_counts(metrics: str) -> None:
    """Print what the server counted of shadow requests."""
    with urllib.request.urlopen(f"http://{metrics}/metrics") as response:
        scrape = response.read().decode()
    for line in re.findall(r"^nmt_shadow_(?:requests|texts|exact_matches)_total.*$", scrape, re.MULTILINE):
        print(line)


if __name__ == "__main__":
    main()
