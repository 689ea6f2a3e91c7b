"""Savings by kept answers, and their cost where nothing repeats.

    python -m benchmarks.kept_answers FILE-WITH-A-SENTENCE-A-LINE --rounds 5

Three servers, one with kept answers and two without, get the same closed loops in turns: sentences that never
repeat, and sentences with half repeated. Prints sentences per second of each and its processor time for a
sentence, medians of the rounds and of the ratios within a round, and the time of a lone call whose answer is kept. What
the second server without kept answers differs from the first is noise.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import cycle, islice, permutations
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness.bundled_model import ServedModel, newest_bundle, our_server
from benchmarks.harness.light_calls import LightConnection, body_of, headers_of
from benchmarks.harness.processes import ServerProcess, thread_cpu_seconds
from xuanzang.loadtest.loops import closed_loop
from xuanzang.translation.v1 import translation_pb2 as pb

METHOD = "/xuanzang.translation.v1.TranslationService/TranslateText"
CALLERS = 64
SECONDS = 60.0
SIZES = {"without": "0", "again": "0", "keeping": "64"}
"""Megabytes of kept answers, by the names of the servers."""
_REMEMBERED = 200


class Load(NamedTuple):
    """Figures of a closed loop."""

    rate: float
    """Sentences per second."""
    cpu: float
    """Processor time of the server for a sentence, ms."""


def requests(texts: Iterator[str], *, repeated: float) -> Iterator[bytes]:
    """Return requests of one sentence each, a share of them asked lately."""
    draw, asked = random.Random(1), list[bytes]()
    while True:
        if asked and draw.random() < repeated:
            yield draw.choice(asked[-_REMEMBERED:])
            continue
        settings = pb.TranslationSettings(source_language_code="zh", target_language_code="en")
        body = body_of(pb.TranslateTextRequest(contents=[next(texts)], settings=settings).SerializeToString())
        asked.append(body)
        yield body


async def answered(address: str, bodies: Iterator[bytes], seconds: float) -> int:
    """Return the sentences that a server answers in a closed loop."""
    connection, count = await LightConnection.open(address), 0
    block, end = headers_of(METHOD, SECONDS), time.perf_counter() + seconds

    async def call(due: float) -> None:
        nonlocal count
        ended = await connection.call(block, next(bodies), timeout=SECONDS, due=due)
        if ended.code:
            raise RuntimeError(f"status {ended.code}")
        count += 1

    await closed_loop(call, callers=CALLERS, is_over=lambda: time.perf_counter() > end)
    connection.close()
    return count


def load(server: ServerProcess, bodies: Iterator[bytes], seconds: float) -> Load:
    """Load a server."""
    used, started = sum(thread_cpu_seconds(server.pid).values()), time.perf_counter()
    count = asyncio.run(answered(server.address, bodies, seconds))
    taken = time.perf_counter() - started
    return Load(count / taken, 1e3 * (sum(thread_cpu_seconds(server.pid).values()) - used) / count)


async def lone_calls(address: str, text: str, count: int = 300) -> float:
    """Return the median of the seconds of equal calls, one after the other."""
    connection = await LightConnection.open(address)
    body, block = next(requests(iter([text]), repeated=0)), headers_of(METHOD, SECONDS)
    seconds = [
        (await connection.call(block, body, timeout=SECONDS, due=time.perf_counter())).seconds for _ in range(count)
    ]
    connection.close()
    return statistics.median(seconds[1:])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sentences", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0)
    arguments = parser.parse_args()
    texts = [*dict.fromkeys(filter(None, map(str.strip, arguments.sentences.read_text(encoding="utf-8").splitlines())))]
    fresh = _numbered(texts)
    model = ServedModel(bundle=newest_bundle(), texts=texts)
    with ExitStack() as stack:
        servers = {
            name: stack.enter_context(our_server(model, "--answer-cache-mb", size)) for name, size in SIZES.items()
        }
        for server in servers.values():
            load(server, requests(fresh, repeated=0.0), 2.0)
        for share in (0.0, 0.5):
            rounds = [
                {name: load(servers[name], requests(fresh, repeated=share), arguments.seconds) for name in order}
                for order in islice(cycle(permutations(servers)), arguments.rounds)
            ]
            print("\n".join(_lines(rounds, share)))
        lone = {name: asyncio.run(lone_calls(server.address, texts[0])) for name, server in servers.items()}
    print(
        "a lone call, equal ones before it: " + ", ".join(f"{1e3 * each:.2f} ms {name}" for name, each in lone.items())
    )


def _lines(rounds: Sequence[Mapping[str, Load]], share: float) -> Iterator[str]:
    """Yield the medians of the rounds, and of the ratios within them to the first server."""
    for name in SIZES:
        rate, cpu = (statistics.median(column) for column in zip(*(each[name] for each in rounds), strict=True))
        ratios = [(each[name].rate / each["without"].rate, each[name].cpu / each["without"].cpu) for each in rounds]
        faster, dearer = (statistics.median(column) for column in zip(*ratios, strict=True))
        yield (
            f"{share:.0%} repeated, {name:8} {rate:6.1f} sentences/s ({faster:.3f}), {cpu:6.3f} ms of CPU each "
            f"({dearer:.3f})"
        )


def _numbered(texts: Sequence[str]) -> Iterator[str]:
    """Return texts that never repeat: when all were used, once more with a number in front."""
    yield from texts
    for number in itertools.count(1):
        yield from (f"{number}、{text}" for text in texts)


if __name__ == "__main__":
    main()
