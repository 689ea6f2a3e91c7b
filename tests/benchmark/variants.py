"""Our server in variants, interleaved: allocators preloaded, or callers with API keys instead of anonymous ones.

Every variant has a server of its own, which idles while the others are measured: rounds A B C A B C of closed loops.
Prints sentences per second, the median of the rounds and its ratio to the first variant's, and the resident memory
after the last round and some time later.

$ PYTHONPATH=tests/support python tests/benchmark/variants.py allocators --rounds 3
$ PYTHONPATH=tests/support python tests/benchmark/variants.py access --rounds 3
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from api_keys import add_key
from load import Load
from processes import ServerProcess, free_address
from served import HERE, Callers, single_sentences

from xuanzang.translation.v1 import translation_pb2

MODELS = HERE.parents[1] / "server" / "models"
CALLERS = 64
WARM_UP_SECONDS = 2.0
IDLE_SECONDS = 35.0
"""Longer than a worker keeps its memory, and than the heap is left alone, without sentences."""
LIBRARIES = {"jemalloc": "libjemalloc.so.2", "mimalloc": "libmimalloc.so.2"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One way to run the server."""

    name: str
    flags: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    key: str = ""
    """API key of the callers."""


def allocators(folder: Path) -> list[Variant]:
    """Return the server as it is, and with each of Debian's allocators that is installed."""
    found = {name: next(Path("/usr/lib").glob(f"*/{library}"), None) for name, library in LIBRARIES.items()}
    absent = [name for name, path in found.items() if path is None]
    if absent:
        print(f"not measured, because it is not installed: {', '.join(absent)}", file=sys.stderr)
    preloaded = [
        Variant(name=name, variables={"LD_PRELOAD": str(path)}, flags=_models(folder))
        for name, path in found.items()
        if path
    ]
    return [Variant(name="glibc", flags=_models(folder)), *preloaded]


def access(folder: Path) -> list[Variant]:
    """Return a server for anonymous callers, and one for callers with a key and quotas that none reaches."""
    file = folder / "keys.json"
    quotas = ("--requests-per-minute", "--characters-per-minute", "--concurrent-sentences")
    key = add_key(file, "benchmark", *(f"{quota}={10**9}" for quota in quotas))
    keyed = (*_models(folder), "--keys-file", str(file), "--no-anonymous")
    return [
        Variant(name="anonymous", flags=_models(folder)),
        Variant(name="with a key", flags=keyed, key=key),
    ]


def _models(folder: Path) -> tuple[str, ...]:
    return ("--models", str(MODELS), "--tried-bundles", str(folder / "tried"))


def started(variant: Variant, text: str) -> ServerProcess:
    """Return the server of a variant, to be entered."""
    address = free_address()
    flags = ("--address", address, "--metrics-address", "127.0.0.1:0", "--log-level", "warning", *variant.flags)
    request = translation_pb2.TranslateTextRequest(contents=[text]).SerializeToString()
    command = ("-m", "xuanzang.server", *flags)
    return ServerProcess(*command, address=address, request=request, key=variant.key, variables=variant.variables)


def measure(variants: Sequence[Variant], texts: Sequence[str], *, rounds: int, seconds: float, folder: Path) -> None:
    """Measure variants in turn, and print the table."""
    with ExitStack() as stack:
        callers = Callers(stack, texts, folder)
        servers = [stack.enter_context(started(variant, texts[0])) for variant in variants]
        rates: list[list[float]] = [[] for _ in variants]
        for seed in range(rounds):
            for variant, server, found in zip(variants, servers, rates, strict=True):
                load = Load(
                    address=server.address,
                    rate=None,
                    callers=CALLERS,
                    seconds=seconds,
                    warm_up_seconds=WARM_UP_SECONDS,
                    seed=seed,
                    key=variant.key,
                )
                found.append(callers.call(load).sentences_per_second)
        loaded = [server.resident_megabytes() for server in servers]
        time.sleep(IDLE_SECONDS)
        idle = [server.resident_megabytes() for server in servers]
    first = statistics.median(rates[0])
    print("| variant | sentences/s | ratio | rounds | MB after load | MB idle |\n|---|---|---|---|---|---|")
    for variant, found, busy, rest in zip(variants, rates, loaded, idle, strict=True):
        middle, each = statistics.median(found), ", ".join(f"{rate:.1f}" for rate in found)
        print(f"| {variant.name} | {middle:.1f} | {middle / first:.2f} | {each} | {busy:.0f} | {rest:.0f} |")


def main() -> None:
    """Measure the variants that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = {"allocators": allocators, "access": access}
    parser.add_argument("kind", choices=kinds)
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    parser.add_argument("--seconds", type=float, default=8.0, metavar="SECONDS", help="duration of a closed loop")
    parsed = parser.parse_args()
    lines = (HERE / "sentences.tsv").read_text(encoding="utf-8").splitlines()
    texts = single_sentences(line.split("\t")[0] for line in lines)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        measure(kinds[parsed.kind](folder), texts, rounds=parsed.rounds, seconds=parsed.seconds, folder=folder)


if __name__ == "__main__":
    main()
