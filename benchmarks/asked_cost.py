"""Cost of provenance or quality: CPU time of the server per call of one sentence, asked for it and not.

    python -m benchmarks.asked_cost --rounds 10 --before ../main
    python -m benchmarks.asked_cost --asked return_quality --beam-size 4

Calls of each kind are made one after another, the kinds in turn, in another order each round. Each figure is the median
of the rounds' ratios to the server that is not asked. Prints a table. `--before` adds a server of another checkout,
whose ratio shows the cost of the code without the request.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.harness.bundled_model import bundled_model, our_server
from benchmarks.harness.processes import ServerProcess, cpu_seconds
from xuanzang.client import TranslateOptions, TranslationClient


def measure(server: ServerProcess, client: TranslationClient, texts: Sequence[str], options: TranslateOptions) -> float:
    """Return the CPU time of the server per call, in milliseconds."""
    before = cpu_seconds(server.pid)
    for text in texts:
        client.translate([text], **options)
    return 1000 * (cpu_seconds(server.pid) - before) / len(texts)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10, help="rounds of 256 calls of each kind")
    parser.add_argument("--before", type=Path, help="root of another checkout, with its kernels built")
    parser.add_argument("--asked", choices=["return_provenance", "return_quality"], default="return_provenance")
    parser.add_argument("--beam-size", type=int, default=1)
    print_table(measure_in_turn(parser.parse_args()))


def measure_in_turn(arguments: argparse.Namespace) -> dict[str, list[float]]:
    """Return the CPU time of a call in each round, in milliseconds, by kind of call; the first round warms up."""
    plain: TranslateOptions = {"beam_size": arguments.beam_size}
    asking: TranslateOptions = {
        "beam_size": arguments.beam_size,
        "return_provenance": arguments.asked == "return_provenance" or None,
        "return_quality": arguments.asked == "return_quality" or None,
    }
    model = bundled_model()
    with ExitStack() as stack:
        ours = stack.enter_context(our_server(model))
        client = stack.enter_context(TranslationClient(ours.address))
        kinds = {"not asked": (ours, client, plain), "asked": (ours, client, asking)}
        if arguments.before:
            before = stack.enter_context(our_server(model, checkout=arguments.before))
            kinds["before"] = (before, stack.enter_context(TranslationClient(before.address)), plain)
        found: dict[str, list[float]] = {name: [] for name in kinds}
        for number in range(arguments.rounds + 1):
            names = list(kinds)
            for name in names[number % len(names) :] + names[: number % len(names)]:
                server, client, options = kinds[name]
                found[name].append(measure(server, client, model.texts, options))
    return found


def print_table(found: dict[str, list[float]]) -> None:
    """Print medians, and medians of the ratios to calls that do not ask."""
    base = found["not asked"][1:]
    print(f"{'':12}{'CPU ms per call':>16}{'ratio':>8}")
    for name, (_, *figures) in found.items():
        ratio = statistics.median(each / one for each, one in zip(figures, base, strict=True))
        print(f"{name:12}{statistics.median(figures):16.3f}{ratio:8.3f}")


if __name__ == "__main__":
    main()
