"""Cost of explanations for callers who do not ask for them.

    python -m benchmarks.explanation_cost --rounds 10

One server, whose limit of explanations is one. In each round, one after another in turns: a caller translates 64
sentences; a caller asks for 64 explanations of them, each when the one before is answered; both at once, until the
translations are done. CPU time is the server's, so that it counts however busy the machine is. What both together take
is compared with the sum of both alone: it is equal unless explanations make translations dearer.
Prints medians of the rounds.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.harness.bundled_model import bundled_model, our_server
from benchmarks.harness.processes import ServerProcess, cpu_seconds
from xuanzang.client import TranslationClient

TEXTS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """Part of a round."""

    translations: int
    explanations: int
    cpu: float
    """Milliseconds of the server."""
    latency: float
    """Median milliseconds of a translation; 0 without any."""


def cpu_milliseconds(server: ServerProcess) -> float:
    """Return the CPU time that a server has used so far."""
    return 1000 * cpu_seconds(server.pid)


def timed(call: Callable[[], object]) -> float:
    """Make a call and return its milliseconds."""
    began = time.perf_counter()
    call()
    return 1000 * (time.perf_counter() - began)


@contextmanager
def explaining(client: TranslationClient, texts: Sequence[str], counter: list[int]) -> Iterator[None]:
    """Ask for explanations, one after another, meanwhile."""
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            client.explain(texts[counter[0] % len(texts)], target_language="en")
            counter[0] += 1

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def translating(server: ServerProcess, client: TranslationClient, texts: Sequence[str]) -> Phase:
    """Translate every text."""
    before = cpu_milliseconds(server)
    latencies = [timed(lambda text=text: client.translate([text], target_language="en")) for text in texts]  # type: ignore[misc]
    cpu = cpu_milliseconds(server) - before
    return Phase(translations=len(texts), explanations=0, cpu=cpu, latency=statistics.median(latencies))


def explaining_alone(server: ServerProcess, client: TranslationClient, texts: Sequence[str]) -> Phase:
    """Explain every text."""
    before = cpu_milliseconds(server)
    for text in texts:
        client.explain(text, target_language="en")
    return Phase(translations=0, explanations=len(texts), cpu=cpu_milliseconds(server) - before, latency=0.0)


def both(server: ServerProcess, client: TranslationClient, texts: Sequence[str]) -> Phase:
    """Translate every text while others are explained."""
    counter, before = [0], cpu_milliseconds(server)
    with explaining(client, texts, counter):
        phase = translating(server, client, texts)
    cpu = cpu_milliseconds(server) - before
    return Phase(translations=len(texts), explanations=counter[0], cpu=cpu, latency=phase.latency)


def report(rounds: Sequence[dict[str, Phase]]) -> None:
    """Print the medians over the rounds."""
    alone = [each["translations"] for each in rounds]
    explained = [each["explanations"] for each in rounds]
    mixed = [each["both"] for each in rounds]
    sums = [
        plain.cpu / plain.translations * together.translations + only.cpu / only.explanations * together.explanations
        for plain, only, together in zip(alone, explained, mixed, strict=True)
    ]
    ratios = [together.cpu / expected for together, expected in zip(mixed, sums, strict=True)]
    latencies = [together.latency / plain.latency for plain, together in zip(alone, mixed, strict=True)]
    print(f"CPU ms per translation alone     {statistics.median(each.cpu / each.translations for each in alone):8.2f}")
    print(
        f"CPU ms per explanation alone     {statistics.median(each.cpu / each.explanations for each in explained):8.2f}"
    )
    print(f"explanations per translation     {statistics.median(e.explanations / e.translations for e in mixed):8.2f}")
    print(
        f"CPU of both by the sum of each   {statistics.median(ratios):8.2f}  ({min(ratios):.2f} to {max(ratios):.2f})"
    )
    print(f"p50 ms of a translation alone    {statistics.median(each.latency for each in alone):8.1f}")
    print(f"p50 beside explanations, ratio   {statistics.median(latencies):8.2f}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    model = bundled_model(TEXTS)
    kinds = {"translations": translating, "explanations": explaining_alone, "both": both}
    rounds: list[dict[str, Phase]] = []
    with our_server(model, "--max-explanations", "1") as server, TranslationClient(server.address) as client:
        for number in range(arguments.rounds + 1):
            names = list(kinds)
            turn = names[number % 3 :] + names[: number % 3]
            rounds.append({name: kinds[name](server, client, model.texts) for name in turn})
    # The first round warms up: the graphs are opened.
    report(rounds[1:])


if __name__ == "__main__":
    main()
